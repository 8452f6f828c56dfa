"""Stages with a straggler: told from those without, with the cause and a remedy that fits."""

import json
from dataclasses import asdict

import pytest

from diagnosis.log_events import START, found, stage_end, task
from skewless.diagnosis.stages import summarise
from skewless.diagnosis.writes import advice


def test_a_hot_key_is_told_from_even_tasks():
    even = [task(0, i, 2.0 + i / 100, 1000) for i in range(8)]
    skewed = [task(1, i, 9.0 if i == 5 else 1.0, 9000 if i == 5 else 1000) for i in range(8)]
    (one,) = found(*even, stage_end(0, "Exchange"), *skewed, stage_end(1, "FlatMapGroupsInPandas"))
    assert (one.stage, one.slowest_partition, one.cause) == (1, 5, "records")
    assert one.share_of_records == pytest.approx(9 / 16)
    assert one.saved_seconds == pytest.approx(9 - 2)
    assert "Aggregator" in one.remedy
    assert one.job == "count at Clicks"
    assert json.dumps(asdict(one))


@pytest.mark.parametrize(
    ("operator", "word"),
    [
        ("SortMergeJoin", "skewless.spark.join counts the pairs"),
        ("MapInArrow", "skewless.spark.route"),
        ("FlatMapGroupsInPandasWithState", "skewless.spark.process"),
        ("TransformWithStateInPySpark", "skewless.spark.process"),
        ("Window", "max_by"),
        ("WindowGroupLimit", "skewless.spark.top_n"),
        ("WriteFiles", "skewless.spark.route by the partition's columns"),
        ("SomethingNew", "hot_keys"),
    ],
)
def test_the_remedy_depends_on_what_the_stage_does(operator, word):
    tasks = [task(0, i, 9.0 if i == 0 else 1.0, 9000 if i == 0 else 1000) for i in range(4)]
    (one,) = found(*tasks, stage_end(0, "Exchange", operator))
    assert word in one.remedy


def test_the_query_tells_where_generated_code_hides_the_operators():
    plan = {"nodeName": "WholeStageCodegen (3)", "children": [{"nodeName": "SortMergeJoin"}]}
    START[2]["sparkPlanInfo"] = plan
    tasks = [task(0, i, 9.0 if i == 0 else 1.0, 9000 if i == 0 else 1000) for i in range(4)]
    (one,) = found(*tasks, stage_end(0, "WholeStageCodegen (3)", "Exchange"))
    assert one.remedy.startswith("a join")
    del START[2]["sparkPlanInfo"]


def test_metrics_tell_which_operators_of_a_query_generated_code_hides_in_a_stage():
    """Adaptive execution has changed the plan; both stages are of one query."""
    join = {"nodeName": "SortMergeJoin", "metrics": [{"name": "rows", "accumulatorId": 7}]}
    window = {"nodeName": "Window", "metrics": [{"accumulatorId": 8}, {"accumulatorId": 9}]}
    plan = {"nodeName": "WholeStageCodegen (2)", "children": [window | {"children": [join]}]}
    changed = {
        "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate",
        **{"executionId": 3, "sparkPlanInfo": plan},
    }
    events = [changed]
    for stage, counted in ((0, [1, 7]), (1, [9])):
        sizes = [9000, 1000, 1000, 1000]
        events += [task(stage, i, n / 1000, n) for i, n in enumerate(sizes)]
        metrics = [{"ID": number} for number in counted]
        events.append(stage_end(stage, "WholeStageCodegen (2)", Accumulables=metrics))
    first, second = sorted(found(*events), key=lambda one: one.stage)
    assert first.operators == ("WholeStageCodegen (2)", "SortMergeJoin")
    assert first.remedy.startswith("a join")
    assert second.operators == ("WholeStageCodegen (2)", "Window")
    assert "max_by" in second.remedy


def test_a_stage_that_writes_is_named():
    tasks = [task(0, i, 9.0 if i == 0 else 1.0, 9000 if i == 0 else 1000) for i in range(4)]
    for one in tasks:
        one["Task Metrics"]["Output Metrics"] = {"Records Written": 10}
    (straggler,) = found(*tasks, stage_end(0, "Sort"))
    assert straggler.operators == ("Sort", "WriteFiles")
    assert "explain_write" in straggler.remedy


def node(text, *children, name=None):
    return {
        "nodeName": name or text.split()[0],
        "simpleString": text,
        "children": list(children),
    }


OURS = node(
    "Exchange shufflepartitionidpassthrough(worker#5), REPARTITION_BY_NUM", node("LocalTableScan")
)
SECOND = node("Exchange hashpartitioning(tenant#1, 4), REBALANCE_PARTITIONS_BY_COL", OURS)
WRITE = "AppendData IcebergWrite(table=lake.db.t, format=PARQUET)"


@pytest.mark.parametrize(
    ("plan", "undone"),
    [
        (node(WRITE, node("Sort [tenant#1]", SECOND)), True),
        (node("Execute InsertIntoHadoopFsRelationCommand", node("WriteFiles", OURS)), False),
        (node(WRITE, node("AdaptiveSparkPlan isFinalPlan=false", OURS)), False),
        (node("Sort", SECOND), False),  # nothing is written
        (node(WRITE, node("HashAggregate", SECOND)), False),  # the work needs this exchange
    ],
)
def test_a_write_that_shuffles_again_what_was_routed_is_named(plan, undone):
    begun = START[2] | {"sparkPlanInfo": plan}
    (*shuffles,) = summarise([*START[:2], begun]).undone
    assert len(shuffles) == undone
    for one in shuffles:
        assert one.query == "count at Clicks"
        assert one.exchange.startswith("Exchange hashpartitioning(tenant#1, 4)")
        assert "write.distribution-mode to none" in advice(one.write)


def test_odd_fields_of_a_log_count_as_missing():
    odd = [
        {"Event": "SparkListenerJobStart", "Stage IDs": None, "Properties": 3},
        {"Event": "SparkListenerTaskEnd", "Task Info": [], "Task Metrics": "x", "Stage ID": {}},
        {"Event": "SparkListenerStageCompleted", "Stage Info": 7},
        stage_end(0) | {"Stage Info": {"Stage ID": 0, "RDD Info": [3]}},
    ]
    assert summarise([*odd, task(0, 0, 1.0, 5), *odd]).stages[0].tasks.records.tolist() == [5]


def test_uneven_input_is_no_hot_key():
    sizes = [9000, 1000, 1000, 1000]
    tasks = [task(0, i, n / 1000, n, shuffle=False) for i, n in enumerate(sizes)]
    (one,) = found(*tasks, stage_end(0, "Scan parquet"))
    assert one.cause == "input"
    assert "repartition" in one.remedy


def test_a_slow_machine_is_no_hot_key():
    tasks = [task(0, i, 6.0 if i % 4 == 3 else 1.0, 1000, executor=str(i % 4)) for i in range(16)]
    (one,) = found(*tasks, stage_end(0, "MapInArrow"))
    assert one.cause == "executor"
    assert "executor 3" in one.remedy


def test_the_first_wave_is_slow_and_no_straggler():
    first = [task(0, i, 3.0, 1000) for i in range(2)]
    later = [task(0, i, 0.4, 1000, launched=3000 + 400 * i) for i in range(2, 8)]
    assert found(*first, *later, stage_end(0, "MapInArrow")) == []
    hot = [task(0, 8, 2.5, 9000, launched=3000)]
    (one,) = found(*first, *later, *hot, stage_end(0, "MapInArrow"))
    assert (one.slowest_partition, one.cause) == (8, "records")


def test_a_hot_key_is_named_beside_a_slower_task_that_starts_python():
    events = [task(2, n, 0.2, 5_000, launched=8_000, number=n) for n in range(2, 8)]
    events += [task(2, 0, 7.8, 10_002), task(2, 1, 4.2, 497_991, launched=8_000, number=1)]
    [one] = found(*events, stage_end(2, "MapInArrow"))
    assert (one.slowest_partition, one.cause) == (1, "records")
    assert one.share_of_records > 0.9


def test_dear_records_are_told_from_many():
    tasks = [task(0, i, 6.0 if i == 3 else 1.0, 1000) for i in range(4)]
    (one,) = found(*tasks, stage_end(0, "Other"))
    assert one.cause == "cost"
    assert "weight=" in one.remedy


def test_what_is_no_problem_is_not_named():
    short = [task(0, i, 0.4 if i == 0 else 0.01, 10) for i in range(4)]
    alone = [task(1, 0, 50.0, 1000)]
    failed = [
        task(2, 0, 90.0, 10, reason="ExceptionFailure"),
        task(2, 0, 1.0, 10),
        task(2, 1, 1.0, 10),
    ]
    assert found(*short, stage_end(0), *alone, stage_end(1), *failed, stage_end(2)) == []
    assert summarise(START).stages == ()


@pytest.mark.parametrize("hot", [1, 2, 3])
def test_hot_tasks_are_seen_among_few_and_where_they_are_half_of_all(hot):
    """The mean of both tasks in the middle would be above half of the slowest."""
    tasks = [task(0, i, 60.0 if i < hot else 1.0, 9000 if i < hot else 10) for i in range(2 * hot)]
    (one,) = found(*tasks, stage_end(0, "MapInArrow", seconds=60))
    assert (one.cause, one.median_seconds, one.slowest_seconds) == ("records", 1.0, 60.0)
    assert one.saved_seconds == pytest.approx(29.5)


def test_what_fills_the_slots_anyway_would_not_be_saved():
    """One task of 10 s at the beginning, and 200 of 1 s on two slots: the other slot is full."""
    long = [task(0, 0, 10.0, 9000)]
    beside = [task(0, 1 + i, 1.0, 900, launched=1000 * i) for i in range(105)]
    after = [task(0, 106 + i, 1.0, 900, launched=10_000 + 1000 * i) for i in range(95)]
    (one,) = found(*long, *beside, *after, stage_end(0, "MapInArrow", seconds=105))
    assert one.saved_seconds == pytest.approx(0.0, abs=0.01)
    # At the end the same task runs alone, and half of it could be saved.
    even = [task(0, i, 1.0, 900, launched=1000 * (i // 2)) for i in range(200)]
    last = [task(0, 200, 10.0, 9000, launched=100_000)]
    (one,) = found(*even, *last, stage_end(0, "MapInArrow", seconds=110))
    assert one.saved_seconds == pytest.approx(5.0)


def test_the_cost_of_records_is_no_matter_of_routing_without_a_shuffle():
    tasks = [task(0, i, 6.0 if i == 3 else 1.0, 1000, shuffle=False) for i in range(4)]
    (one,) = found(*tasks, stage_end(0, "Scan parquet", "MapInArrow"))
    assert one.cause == "cost"
    assert "skewless.spark.route" not in one.remedy
    assert "weight=" not in one.remedy
    assert "repartition(n)" in one.remedy
    shuffled = [task(0, i, 6.0 if i == 3 else 1.0, 1000) for i in range(4)]
    (one,) = found(*shuffled, stage_end(0, "MapInArrow"))
    assert "weight=" in one.remedy


def test_a_broadcast_join_does_not_make_an_aggregation_a_join():
    tasks = [task(0, i, 9.0 if i == 0 else 1.0, 9000 if i == 0 else 1000) for i in range(4)]
    (one,) = found(*tasks, stage_end(0, "BroadcastHashJoin", "ObjectHashAggregate"))
    assert one.remedy.startswith("an aggregation")
