"""From run to page: what is said, what is compared, and what is honestly left out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rooflens.model import Check, Finding, Machine, Op, Quantity, Run, StepTime, absent, known
from rooflens.reports.view import Page, build_page
from rooflens.reports.view.basis import with_article
from rooflens.reports.view.page import Table
from tests import builders
from tests.page import sample_runs


def column(table: Table | None, title: str) -> list[str]:
    assert table is not None
    index = [head.title for head in table.columns].index(title)
    return [row[index].text for row in table.rows]


def heads(table: Table | None) -> dict[str, str]:
    assert table is not None
    return {head.title: head.source for head in table.columns}


def test_a_prediction_is_called_one_and_rests_on_compulsory_bytes() -> None:
    page = build_page(sample_runs.counted_run())
    assert "On a Test GPU this decode step cannot take less than 990 µs (prediction" in (
        page.verdict.sentence
    )
    assert page.verdict.tiles[1].value == "990 µs"
    assert "limited by memory" in page.verdict.tiles[1].detail
    assert page.verdict.bar_floor == 0


def test_keys_are_spelled_out() -> None:
    assert "context 2047 + 1 new = 2048 keys" in build_page(sample_runs.counted_run()).subtitle


def test_a_time_from_here_is_never_set_against_a_roof_from_elsewhere() -> None:
    run = sample_runs.counted_run(machine=Machine(device="cpu", cpu="Some CPU"))
    timed = replace(run.totals, step_time_ns=known(5e8, "ns", "host"))
    rows = tuple(replace(row, time_ns=known(1e6, "ns", "host")) for row in run.operators)
    page = build_page(replace(run, totals=timed, operators=rows))
    assert "takes 500 ms here; on a Test GPU it cannot take less than" in page.verdict.sentence
    assert "the floor" not in page.verdict.tiles[0].detail
    assert "Gap" not in heads(page.operators.table)
    assert page.timeline.waterfall is None
    assert "another device" in page.timeline.waterfall_empty
    assert len(page.where.charts[0].drawing.marks) > 0
    assert "Operator floor" not in page.where.charts[0].drawing.description


def test_without_a_roof_there_are_bytes_and_a_way_to_get_one() -> None:
    page = build_page(sample_runs.counted_run(None))
    assert "--gpu" in page.verdict.tiles[1].detail
    assert "--gpu" in page.roofline.empty
    assert "Ordered by bytes" in page.findings.sentence
    assert page.findings.cards[0].rule == "R03-repeat-kv-expand"
    assert page.where.heading == "Where the bytes go"


def test_a_step_faster_than_its_floor_is_not_praised() -> None:
    run = sample_runs.gpu_run()
    fast = replace(run.totals, step_time_ns=known(500_000, "ns", "timeline"))
    page = build_page(replace(run, totals=fast))
    assert "the roof or the clock is wrong" in page.verdict.sentence


def test_a_scaled_time_is_said_to_be_scaled() -> None:
    scaled = Quantity(value=9e6, unit="ns", source="host", extrapolated_from=(0,))
    run = sample_runs.gpu_run()
    run = replace(run, totals=replace(run.totals, step_time_ns=scaled), timeline=None)
    page = build_page(replace(run, step_times_ns=(4e6, 5e6)))
    assert "would take about 9.00 ms" in page.verdict.sentence
    assert "median of 2 steps of 1 of 2 layers, scaled; they took 4.00 ms to 5.00 ms" in (
        page.verdict.tiles[0].detail
    )
    assert page.verdict.tiles[0].source == "host clock, extrapolated from layer 0"


def test_findings_are_sorted_by_time_and_the_rest_is_folded() -> None:
    run = sample_runs.counted_run()
    page = build_page(run)
    assert [card.rule for card in page.findings.cards] == [
        "R03-repeat-kv-expand", "R04-kv-append-copies-cache",
    ]  # fmt: skip
    assert page.findings.cards[0].saves == (
        "250.0 MB a step (18 % of the requested bytes), 125 to 250 µs on Test GPU (prediction)"
    )
    assert [line.rule for line in page.findings.clear] == ["R08-logits"]
    assert [line.rule for line in page.findings.unknown] == ["R16-uncoalesced"]
    many = tuple(replace(run.findings[0], rule=f"R{n}") for n in range(12))
    folded = build_page(replace(run, findings=many))
    assert (len(folded.findings.cards), len(folded.findings.more)) == (7, 5)
    tiny = tuple(replace(f, saving_bytes=sample_runs.counted(1000)) for f in many)
    small = build_page(replace(run, findings=tiny))
    assert (len(small.findings.cards), len(small.findings.more)) == (3, 9)


def test_a_finding_says_what_its_ops_took_where_they_were_timed() -> None:
    run = sample_runs.counted_run()
    took = "These ops took 3.00 ms of the step (host clock)"
    first = replace(run.findings[0], ops=(0, 1))
    for times, said in (((1e6, 2e6), True), ((1e6, None), False)):
        ops = tuple(Op(index=i, name="aten.cat", module="", time_ns=t) for i, t in enumerate(times))
        page = build_page(replace(run, ops=ops, findings=(first,)))
        assert any(took in line for line in page.findings.cards[0].evidence) is said


def test_the_host_clock_is_in_the_legend_where_it_timed_the_step() -> None:
    run = sample_runs.counted_run()
    timed = replace(run.totals, step_time_ns=known(5e8, "ns", "host"))
    labels = [level for level, _, _ in build_page(replace(run, totals=timed)).evidence]
    assert labels[-1] == "host clock"
    assert "host clock" not in [level for level, _, _ in build_page(run).evidence]


@pytest.mark.parametrize(("less", "said"), [(20_000_000, True), (2_000_000_000, False)])
def test_readers_of_removed_tensors_are_named_where_they_fit(less: int, said: bool) -> None:
    run = sample_runs.counted_run()
    first = replace(run.findings[0], consumer_bytes=sample_runs.counted(less))
    sentence = build_page(replace(run, findings=(first,))).findings.sentence
    assert ("these tensors ask for 20.00 MB less as well" in sentence) is said
    assert ("less as well" in sentence) is said


def test_failed_checks_come_first_and_passed_ones_are_folded() -> None:
    trust = build_page(sample_runs.counted_run()).trust
    assert [line.mark for line in trust.problems] == ["Failed", "Warning"]
    assert [line.id for line in trust.passed] == ["coverage"]
    assert trust.headline == "1 check failed, 1 warning, 1 check could not look, 1 passed."


@pytest.mark.parametrize(
    ("checks", "headline"),
    [
        ((), "No check has been made: take every number with care."),
        ((Check(id="a", outcome="passed", message="m"),), "The one check passed."),
        ((Check(id="a", outcome="passed", message="m"),) * 3, "All 3 checks passed."),
    ],
)
def test_trust_in_one_line(checks: tuple[Check, ...], headline: str) -> None:
    assert build_page(builders.run(checks=checks)).trust.headline == headline


def test_columns_carry_their_evidence_and_empty_ones_are_named_with_the_reason() -> None:
    table = build_page(sample_runs.counted_run()).operators.table
    assert heads(table)["Minimum bytes"] == "theory"
    assert heads(table)["Requested bytes"] == "counted"
    assert "Moved bytes" not in heads(table)
    assert table is not None
    assert any("no counter capture" in note and "Moved bytes" in note for note in table.notes)


def test_mixed_evidence_is_said_cell_by_cell() -> None:
    run = sample_runs.gpu_run()
    guess = Quantity(value=5, unit="byte", source="counters", extrapolated_from=(0, 1))
    rows = (replace(run.operators[0], moved_bytes=guess), *run.operators[1:])
    table = build_page(replace(run, operators=rows)).operators.table
    assert table is not None
    index = [head.title for head in table.columns].index("Moved bytes")
    assert table.columns[index].source == ""
    assert table.rows[0][index].source == "counters, extrapolated from 2 layers"
    assert table.rows[1][index].source == "counters"


def test_the_operators_say_who_has_to_fix_what() -> None:
    page = build_page(sample_runs.gpu_run())
    table = page.operators.table
    answers = dict(zip(column(table, "Operator"), column(table, "To fix in"), strict=True))
    assert answers["attention"] == "both"
    assert answers["q_proj"] == "kernel"
    assert answers["mask"] == "both"
    assert any("the program (the model's code" in line for line in page.operators.sentences)
    assert any("the kernels have to be changed" in line for line in page.operators.sentences)


def test_the_five_hand_checks_are_answered() -> None:
    answers = build_page(sample_runs.counted_run()).findings.directions
    assert len(answers) == 5
    assert all(entry.verdict in ("Yes", "No", "Could not look") for entry in answers)


def test_classes_are_summed_once_beside_their_parts() -> None:
    part = builders.operator(
        "attention", part="scores", requested_bytes=known(390_000_000, "byte", "counted")
    )
    run = sample_runs.counted_run()
    page = build_page(replace(run, operators=(*run.operators, part)))
    assert "1.354 GB" in page.where.charts[0].drawing.description
    assert column(page.operators.parts, "Operator and part") == ["attention: scores"]


def test_kernels_are_ordered_by_lost_time_and_impossible_ones_are_marked() -> None:
    page = build_page(sample_runs.gpu_run())
    assert column(page.kernels.table, "Kernel")[:2] == ["mystery_kernel", "cutlass gemm 64x64"]
    assert "130 % (invalid)" in column(page.kernels.table, "Of DRAM roof")
    assert any("marked invalid" in line for line in page.kernels.sentences)
    assert page.kernels.graphs is not None
    cutlass = next(row[0] for row in page.kernels.table.rows if "cutlass" in row[0].text)  # type: ignore[union-attr]
    assert "cutlass_80_tensorop" in cutlass.detail


def test_ncu_times_are_not_passed_off_as_a_step() -> None:
    cold = known(50_000, "ns", "counters")
    kernels = tuple(replace(k, duration_ns=cold) for k in sample_runs.kernels())
    page = build_page(sample_runs.gpu_run(kernels=kernels))
    assert any("cold and replayed" in line for line in page.kernels.sentences)


def test_more_than_200_kernels_end_in_one_row_with_exact_sums() -> None:
    kernels = sample_runs.many_kernels(250, name_length=30)
    page = build_page(sample_runs.gpu_run(kernels=kernels))
    assert len(column(page.kernels.table, "Kernel")) == 201
    assert column(page.kernels.table, "Kernel")[-1] == "Other (50 kernels)"
    assert column(page.kernels.table, "Launches")[-1] == "150"


def test_the_waterfall_adds_up_exactly() -> None:
    from rooflens.reports.view.basis import basis
    from rooflens.reports.view.waterfall import gap_parts

    for wall in (2_500_000.4, 1_100_000.7, 900_000.2):
        run = sample_runs.gpu_run()
        run = replace(run, totals=replace(run.totals, step_time_ns=known(wall, "ns", "timeline")))
        parts = gap_parts(basis(run))
        assert parts is not None
        total = parts.floor_ns + parts.extra_bytes_ns + parts.inefficiency_ns + parts.idle_ns
        assert total == parts.measured_ns == round(wall)
        assert parts.extra_bytes_ns >= 0


def test_idle_comes_from_the_device_timeline() -> None:
    steps = (StepTime(index=0, start_ns=0, wall_ns=100, busy_ns=60, idle_ns=40),)
    run = sample_runs.gpu_run()
    assert run.timeline is not None
    page = build_page(replace(run, timeline=replace(run.timeline, steps=steps)))
    assert page.timeline.waterfall is not None
    assert "Idle 1.00 ms" in page.timeline.waterfall.drawing.description
    assert page.verdict.tiles[3].value == "60 %"


def test_formulas_are_filled_with_the_numbers_of_the_run() -> None:
    formulas = {f.name: f.filled for f in build_page(sample_runs.gpu_run()).measured.formulas}
    assert formulas["Floor of the step"] == (
        "max(990,000,000 B / 1.000 TB/s, 1,299,000,000 FLOP / 100.0 TFLOP/s) = "
        "max(990 µs, 13.0 µs) = 990 µs"
    )
    assert formulas["Software amplification"].endswith("= 1.354×")


def test_the_regime_of_counters_is_on_the_page() -> None:
    captures = build_page(sample_runs.gpu_run()).measured.captures
    regime = column(captures, "Regime")[0]
    for word in ("clock control: base", "cache control: all", "replay: kernel", "passes: 1"):
        assert word in regime


@pytest.mark.parametrize(
    "make", [builders.run, sample_runs.counted_run, lambda: sample_runs.counted_run(None)]
)
def test_a_section_without_content_says_why(make: object) -> None:
    run = make()  # type: ignore[operator]
    assert isinstance(run, Run)
    page = build_page(run)
    for shown, why in (
        (page.where.charts, page.where.empty),
        (page.roofline.chart, page.roofline.empty),
        (page.operators.table, page.operators.empty),
        (page.kernels.table or page.kernels.graphs, page.kernels.empty),
        (page.timeline.strip, page.timeline.strip_empty),
        (page.timeline.waterfall, page.timeline.waterfall_empty),
    ):
        assert bool(shown) != bool(why)


def test_the_page_depends_on_the_run_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def page() -> Page:
        return build_page(sample_runs.gpu_run())

    first = page()
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("HOME", "/elsewhere")
    assert page() == first


@pytest.mark.parametrize(
    ("name", "words"),
    [("RTX 4090", "an RTX 4090"), ("H200", "an H200"), ("T4", "a T4"), ("L40S", "an L40S"),
     ("GeForce", "a GeForce"), ("NVIDIA H100", "an NVIDIA H100"), ("B200", "a B200"),
     ("A100-80GB", "an A100-80GB")],
)  # fmt: skip
def test_articles(name: str, words: str) -> None:
    assert with_article(name) == words


def test_a_finding_without_a_known_saving_says_so() -> None:
    finding = Finding(
        rule="R99", outcome="found", title="Something", saving_bytes=absent("no shapes"),
        consumer_bytes=absent("no shapes"),
    )  # fmt: skip
    page = build_page(builders.run(findings=(finding,)))
    assert page.findings.cards[0].saves == "not known: no shapes"


def test_without_a_baseline_there_is_no_section_what_changed() -> None:
    assert build_page(sample_runs.gpu_run()).changes is None


def test_a_baseline_adds_what_changed_with_signs_and_words() -> None:
    changes = build_page(sample_runs.changed_run(), sample_runs.calm_run()).changes
    assert changes is not None
    tables = {table.id: table for table in changes.tables}
    rows = dict(zip(column(tables["changes-operators"], "What"),
                    column(tables["changes-operators"], "Change"), strict=True))  # fmt: skip
    assert rows["attention: requested bytes"] == "+100.0 MB (+25 %)"
    assert "▲ worse" in column(tables["changes-operators"], "Verdict")
    assert "gemv_bf16 -> other_gemv" in column(tables["changes-kernels"], "Kernel")[0]
    assert any("Step time 2.50 ms -> 3.00 ms (+20 %)" in note for note in changes.notes)


def test_a_run_against_itself_changed_nothing() -> None:
    changes = build_page(sample_runs.calm_run(), sample_runs.calm_run()).changes
    assert changes is not None
    assert changes.tables == ()


def test_what_must_not_be_compared_is_said() -> None:
    changes = build_page(sample_runs.gpu_run(), sample_runs.gpu_run()).changes
    assert changes is not None
    environment = next(table for table in changes.tables if table.id == "changes-environment")
    assert "times" in column(environment, "Not compared because of it")[0]


def test_sums_over_a_capture_are_not_set_against_a_step() -> None:
    run = sample_runs.gpu_run()
    whole = replace(run.captures[0], regime={"kernel counts": "per capture"})
    page = build_page(replace(run, captures=(whole,)))
    assert page.timeline.waterfall is None
    assert "not per step" in page.timeline.waterfall_empty
    assert "Gap" not in heads(page.operators.table)
    assert column(page.operators.table, "Operator")[-1] == "Whole capture"
    assert "in the capture" in page.findings.cards[0].saves
    assert "Operator floor" not in page.where.charts[0].drawing.description
