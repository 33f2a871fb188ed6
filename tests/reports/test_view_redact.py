"""What a shared report must not carry, and what must not be mistaken for it."""

from __future__ import annotations

import pytest

from rooflens.reports.view.redact import redact, redact_command


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("/home/alice/models/x", "~/models/x"),
        ("/Users/bob/x and /root/y", "~/x and ~/y"),
        (r"C:\Users\Carol\x", r"~\x"),
        ("HF_TOKEN=hf_abcdefgh12345678", "HF_TOKEN=[removed]"),
        ("api_key: 'abcdef123'", "api_key: '[removed]'"),
        ("Authorization: Bearer abcdef12345", "Authorization: Bearer [removed]"),
        ("pull https://me:pass@host/x", "pull https://[removed]@host/x"),
        ("key sk-abcdefgh12345678 leaked", "key [removed] leaked"),
    ],
)
def test_private_things_are_removed(text: str, kept: str) -> None:
    assert redact(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "fold the group into the query tokens (modeling_qwen2.py:139 in repeat_kv)",
        "--query-tokens 4",
        "4 new tokens: 2048 keys",
        "eos_token=151645",
        "/rooted/path",
        "tokens=2048",
    ],
)
def test_words_of_the_trade_are_kept(text: str) -> None:
    assert redact(text) == text


def test_the_argument_after_a_secret_option_goes_too() -> None:
    command = ("serve", "--api-key", "plain", "--query-tokens", "4", "--token=abcdef12")
    assert redact_command(command) == (
        "serve", "--api-key", "[removed]", "--query-tokens", "4", "--token=[removed]",
    )  # fmt: skip


def test_long_text_is_searched_in_linear_time() -> None:
    text = "a-" * 200_000 + " --token " + "/home/" * 1000
    assert redact(text).startswith("a-a-")
