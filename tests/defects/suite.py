"""All planted defects and healthy counterparts."""

from __future__ import annotations

from tests.defects import attention_cases, kernel_cases, operator_cases
from tests.defects.case import Case

CASES: tuple[Case, ...] = (
    *attention_cases.CASES,
    *operator_cases.CASES,
    *kernel_cases.CASES,
)
