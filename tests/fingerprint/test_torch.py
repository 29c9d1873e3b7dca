"""PyTorch objects; runs where torch is installed."""

from __future__ import annotations

import pytest

from provender.fingerprint import Hasher

torch = pytest.importorskip("torch")


def test_tensors_by_dtype_shape_and_value() -> None:
    assert Hasher.hash(torch.tensor([1.0])) == Hasher.hash(torch.tensor([1.0], requires_grad=True))
    assert Hasher.hash(torch.tensor([1.0])) != Hasher.hash(torch.tensor([2.0]))
    assert Hasher.hash(torch.tensor([1.0])) != Hasher.hash(torch.tensor([1.0]).to(torch.bfloat16))
    assert Hasher.hash(torch.zeros(2, 3)) != Hasher.hash(torch.zeros(3, 2))
    assert Hasher.hash(torch.arange(6)[::2]) == Hasher.hash(torch.tensor([0, 2, 4]))
    assert Hasher.hash(torch.zeros(0)) == Hasher.hash(torch.zeros(0))
    assert Hasher.hash(torch.eye(2).to_sparse()) == Hasher.hash(torch.eye(2).to_sparse())


def test_modules_by_parameters_and_code() -> None:
    torch.manual_seed(1)
    one = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    torch.manual_seed(1)
    two = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    assert Hasher.hash(one) == Hasher.hash(two)
    two[0].weight.data[0, 0] += 1
    assert Hasher.hash(one) != Hasher.hash(two)


def test_generators_and_names() -> None:
    assert Hasher.hash(torch.Generator().manual_seed(1)) == Hasher.hash(
        torch.Generator().manual_seed(1)
    )
    assert Hasher.hash(torch.Generator().manual_seed(1)) != Hasher.hash(
        torch.Generator().manual_seed(2)
    )
    assert Hasher.hash(torch.float32) != Hasher.hash(torch.int8)
    assert Hasher.hash(torch.device("cpu")) == Hasher.hash(torch.device("cpu"))
    assert Hasher.hash(torch.Size([1, 2])) != Hasher.hash(torch.Size([2, 1]))
