"""What the data loaders cost: ours beside the per-record form, and beside the published package.

For each loader a process reads the same file in training mode: ours; the per-record form (each
record parsed by `parse_single_example`, then mapped, shuffled and batched, as such loaders are
commonly written); and, with ``--peer-python`` of an environment with tf-models-official 2.20 and
setuptools below 81, the published loader. Microseconds of CPU an example, without imports and the
first batches, median of the rounds. CPU time, since a shared machine's wall time says little.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WARM_UP = 8
LENGTH, SLOTS = 128, 20
MANY, OF_EACH = 100, 200
"""Small files, and records of each."""

CASES: dict[str, dict[str, Any]] = {
    "static, 128": {
        "module": "pretrain_dataloader",
        "config": "BertPretrainDataConfig",
        "loader": "BertPretrainDataLoader",
        "file": "static",
        "examples": 60_000,
        "options": {
            "global_batch_size": 512,
            "seq_length": LENGTH,
            "max_predictions_per_seq": SLOTS,
        },
    },
    "static, 128, many files": {
        "module": "pretrain_dataloader",
        "config": "BertPretrainDataConfig",
        "loader": "BertPretrainDataLoader",
        "file": "many/*",
        "examples": 60_000,
        "options": {
            "global_batch_size": 512,
            "seq_length": LENGTH,
            "max_predictions_per_seq": SLOTS,
        },
    },
    "dynamic, up to 128": {
        "module": "pretrain_dynamic_dataloader",
        "config": "BertPretrainDataConfig",
        "ours": "BertPretrainDynamicDataConfig",
        "loader": "PretrainingDynamicDataLoader",
        "file": "static",
        "examples": 40_000,
        "options": {
            "global_batch_size": 64,
            "seq_bucket_lengths": [32, 64, 96, LENGTH],
        },
    },
    "from text, next sentences": {
        "module": "pretrain_text_dataloader",
        "config": "BertPretrainTextDataConfig",
        "loader": "BertPretrainTextDataLoader",
        "file": "texts",
        "examples": 20_000,
        "options": {
            "global_batch_size": 32,
            "seq_length": LENGTH,
            "max_predictions_per_seq": SLOTS,
            "vocab_file_path": "@vocabulary",
        },
    },
    "from text, whole documents": {
        "module": "pretrain_text_dataloader",
        "config": "BertPretrainTextDataConfig",
        "loader": "BertPretrainTextDataLoader",
        "file": "texts",
        "examples": 8_000,
        "options": {
            "global_batch_size": 32,
            "seq_length": LENGTH,
            "max_predictions_per_seq": SLOTS,
            "use_next_sentence_label": False,
            "vocab_file_path": "@vocabulary",
        },
    },
    "XLNet, 128": {
        "module": "pretrain_dataloader",
        "config": "XLNetPretrainDataConfig",
        "loader": "XLNetPretrainDataLoader",
        "file": "xlnet",
        "examples": 8_000,
        "options": {
            "global_batch_size": 64,
            "seq_length": LENGTH,
            "max_predictions_per_seq": SLOTS,
            "reuse_length": 64,
            "permutation_size": 64,
        },
    },
    "sentence prediction": {
        "module": "sentence_prediction_dataloader",
        "config": "SentencePredictionDataConfig",
        "loader": "SentencePredictionDataLoader",
        "file": "labelled",
        "examples": 40_000,
        "options": {"global_batch_size": 128, "seq_length": LENGTH},
    },
    "sentence prediction, text": {
        "module": "sentence_prediction_dataloader",
        "config": "SentencePredictionTextDataConfig",
        "loader": "SentencePredictionTextDataLoader",
        "file": "texts",
        "examples": 20_000,
        "options": {
            "global_batch_size": 128,
            "seq_length": LENGTH,
            "text_fields": ["left_input", "right_input"],
            "vocab_file": "@vocabulary",
        },
    },
    "tagging": {
        "module": "tagging_dataloader",
        "config": "TaggingDataConfig",
        "loader": "TaggingDataLoader",
        "file": "tagged",
        "examples": 40_000,
        "options": {"global_batch_size": 128, "seq_length": LENGTH},
    },
    "question answering": {
        "module": "question_answering_dataloader",
        "config": "QADataConfig",
        "loader": "QuestionAnsweringDataLoader",
        "file": "labelled",
        "examples": 40_000,
        "options": {"global_batch_size": 128, "seq_length": LENGTH},
    },
    "dual encoder": {
        "module": "dual_encoder_dataloader",
        "config": "DualEncoderDataConfig",
        "loader": "DualEncoderDataLoader",
        "file": "texts",
        "examples": 20_000,
        "options": {
            "global_batch_size": 128,
            "seq_length": LENGTH,
            "vocab_file": "@vocabulary",
        },
    },
    "WMT, buckets": {
        "module": "wmt_dataloader",
        "config": "WMTDataConfig",
        "loader": "WMTDataLoader",
        "file": "texts",
        "examples": 20_000,
        "options": {
            "global_batch_size": 4096,
            "max_seq_length": 64,
            "is_training": True,
            "src_lang": "left_input",
            "tgt_lang": "right_input",
            "sentencepiece_model_path": "@sentencepiece",
        },
    },
    "WMT, static": {
        "module": "wmt_dataloader",
        "config": "WMTDataConfig",
        "loader": "WMTDataLoader",
        "file": "texts",
        "examples": 20_000,
        "options": {
            "global_batch_size": 4096,
            "max_seq_length": 64,
            "is_training": True,
            "static_batch": True,
            "src_lang": "left_input",
            "tgt_lang": "right_input",
            "sentencepiece_model_path": "@sentencepiece",
        },
    },
}


def write_files(folder: Path, scale: float) -> None:
    """Writes the files that the cases read."""
    import numpy as np
    import sentencepiece as spm
    import tensorflow as tf

    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(6_000)]
    frequent = (rng.zipf(1.3, 400_000) - 1) % len(words)

    def text(count: int) -> str:
        start = int(rng.integers(0, len(frequent) - count))
        return " ".join(words[each] for each in frequent[start : start + count])

    def ints(value: Any) -> Any:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=np.atleast_1d(value)))

    def floats(value: Any) -> Any:
        return tf.train.Feature(float_list=tf.train.FloatList(value=np.atleast_1d(value)))

    def string(value: str) -> Any:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))

    def tokens() -> dict[str, Any]:
        mask = (np.arange(LENGTH) < rng.integers(32, LENGTH + 1)).astype(int)
        return {
            "input_ids": ints(rng.integers(5, 6_000, LENGTH) * mask),
            "input_mask": ints(mask),
            "segment_ids": ints((np.arange(LENGTH) > 60) * mask),
        }

    def static() -> dict[str, Any]:
        return {
            **tokens(),
            "masked_lm_positions": ints(rng.integers(0, LENGTH, SLOTS)),
            "masked_lm_ids": ints(rng.integers(5, 6_000, SLOTS)),
            "masked_lm_weights": floats(np.ones(SLOTS)),
            "next_sentence_labels": ints(0),
        }

    def labelled() -> dict[str, Any]:
        answer = {"start_positions": ints(3), "end_positions": ints(5)}
        return {**tokens(), **answer, "label_ids": ints(1)}

    def xlnet() -> dict[str, Any]:
        ids = rng.integers(10, 6_000, LENGTH)
        ids[[LENGTH // 2, LENGTH - 2]], ids[-1] = 4, 3
        begins = np.sort(rng.choice(LENGTH, LENGTH // 2, replace=False))
        return {
            "input_word_ids": ints(ids),
            "input_type_ids": ints((np.arange(LENGTH) > LENGTH // 2).astype(int)),
            "boundary_indices": ints([*begins, LENGTH]),
        }

    def texts() -> dict[str, Any]:
        lines = [text(int(rng.integers(6, 30))) for _ in range(int(rng.integers(4, 20)))]
        return {
            "text": string("\n".join(lines)),
            "left_input": string(text(int(rng.integers(3, 30)))),
            "right_input": string(text(int(rng.integers(3, 30)))),
            "label": ints(1),
        }

    def tagged() -> dict[str, Any]:
        return {**tokens(), "label_ids": ints(rng.integers(-1, 9, LENGTH))}

    makers = {
        "static": (static, 20_000),
        "labelled": (labelled, 20_000),
        "tagged": (tagged, 20_000),
        "xlnet": (xlnet, 4_000),
        "texts": (texts, 6_000),
    }
    for name, (make, count) in makers.items():
        with tf.io.TFRecordWriter(str(folder / name)) as writer:
            for _ in range(max(600, int(count * scale))):
                features = tf.train.Features(feature=make())
                writer.write(tf.train.Example(features=features).SerializeToString())
    records = list(tf.data.TFRecordDataset(str(folder / "static")).as_numpy_iterator())
    (folder / "many").mkdir()
    for number in range(MANY):
        with tf.io.TFRecordWriter(str(folder / "many" / f"{number:03d}")) as writer:
            for each in range(number * OF_EACH, (number + 1) * OF_EACH):
                writer.write(records[each % len(records)])
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *letters, *(f"##{each}" for each in letters), *words[:4_000]]
    (folder / "vocabulary").write_text("\n".join(dict.fromkeys(pieces)) + "\n")
    (folder / "lines").write_text("\n".join(text(20) for _ in range(4_000)))
    spm.SentencePieceTrainer.train(
        input=str(folder / "lines"),
        model_prefix=str(folder / "spm"),
        vocab_size=4_000,
        hard_vocab_limit=False,
        minloglevel=3,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
    )
    (folder / "spm.model").rename(folder / "sentencepiece")


def options_of(case: dict[str, Any], folder: str) -> dict[str, Any]:
    named = {
        key: f"{folder}/{value[1:]}" if isinstance(value, str) and value[:1] == "@" else value
        for key, value in case["options"].items()
    }
    return {**named, "input_path": f"{folder}/{case['file']}", "is_training": True}


def read(kind: str, name: str, folder: str, scale: float) -> None:
    """Reads a case's examples in this process and prints what that took."""
    case = CASES[name]
    options = options_of(case, folder)
    if kind == "published":
        import importlib

        module = importlib.import_module(f"official.nlp.data.{case['module']}")
        data = getattr(module, case["loader"])(getattr(module, case["config"])(**options)).load()
    else:
        import provender.nlp.loaders as ours
        from loaders_by_record import per_record
        from provender.nlp.registry import get_data_loader

        params = getattr(ours, case.get("ours", case["config"]))().override(options)
        loader = get_data_loader(params)
        data = loader.load() if kind == "ours" else per_record(loader, params)
    iterator = iter(data)
    for _ in range(WARM_UP):
        next(iterator)
    wanted = max(1_000, int(case["examples"] * scale))
    seen, batches = 0, 0
    wall, cpu = time.perf_counter(), time.process_time()
    while seen < wanted:
        seen += _rows(next(iterator))
        batches += 1
    print(
        json.dumps(
            {
                "cpu": (time.process_time() - cpu) / seen * 1e6,
                "wall": (time.perf_counter() - wall) / seen * 1e6,
            }
        )
    )


def _rows(batch: Any) -> int:
    part = batch[0] if isinstance(batch, tuple) else batch
    return int(next(iter(part.values())).shape[0])


def main() -> None:
    """Writes the files, reads each case in every way, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the examples")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-python", default="", help="Python with tf-models-official")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--read", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read:
        kind, name, folder, scale = args.read
        read(kind, name, folder, float(scale))
        return
    pythons = {"ours": sys.executable, "per record": sys.executable}
    if args.peer_python:
        pythons["published"] = args.peer_python
    print(f"{'us of CPU an example':28}" + "".join(f"{each:>12}" for each in pythons), end="")
    print(f"{'ours/s':>12}" + "".join(f"{'x ' + each:>14}" for each in list(pythons)[1:]))
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), args.scale)
        for name in [each for each in CASES if args.only in each]:
            # Ways in turns, so that what else the machine does meets all of them.
            runs: dict[str, list[float]] = {each: [] for each in pythons}
            for _ in range(args.rounds):
                for kind, python in pythons.items():
                    runs[kind].append(_run(python, kind, name, folder, args.scale))
            cpu = {kind: statistics.median(each) for kind, each in runs.items()}
            row = f"{name:28}" + "".join(f"{each:12.1f}" for each in cpu.values())
            row += f"{1e6 / cpu['ours']:12,.0f}"
            row += "".join(f"{cpu[each] / cpu['ours']:13.1f}x" for each in list(pythons)[1:])
            print(row, flush=True)


def _run(python: str, kind: str, name: str, folder: str, scale: float) -> float:
    done = subprocess.run(
        [python, __file__, "--read", kind, name, folder, str(scale)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{kind} of {name}:\n{done.stderr[-2000:]}")
    return float(json.loads(done.stdout.splitlines()[-1])["cpu"])


if __name__ == "__main__":
    main()
