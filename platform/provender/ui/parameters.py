"""Parameters that several pages take, declared once."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

from provender.ui.reading import LAST_PAGE
from provender.ui.view import View, view

Viewing = Annotated[View, Depends(view)]
PageNumber = Annotated[int, Query(ge=1, le=LAST_PAGE, description="which page, from 1")]
Text = Annotated[str, Query(max_length=2_000)]
