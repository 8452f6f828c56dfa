"""Events as Spark writes them, for tests of event logs."""

import json

from skewless.diagnosis.stages import summarise
from skewless.diagnosis.stragglers import find_stragglers


def task(
    stage,
    partition,
    seconds,
    records=0,
    *,
    executor="1",
    shuffle=True,
    reason="Success",
    launched=0,
    number=0,
    attempt=0,
):
    read = {"Total Records Read": records, "Local Bytes Read": records * 10}
    given = {"Records Read": records, "Bytes Read": records * 10}
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": attempt,
        "Task End Reason": {"Reason": reason},
        "Task Info": {
            "Task ID": number,
            "Index": partition,
            "Executor ID": executor,
            "Launch Time": launched,
            "Finish Time": launched + round(seconds * 1000),
        },
        "Task Metrics": {
            "Executor Run Time": round(seconds * 1000),
            "Shuffle Read Metrics": read if shuffle else {},
            "Input Metrics": {} if shuffle else given,
        },
    }


def stage_end(stage, *operators, seconds=9, **info):
    scopes = [
        {"Scope": json.dumps({"id": "1", "name": o}, separators=(",", ":"))} for o in operators
    ]
    told = {"Stage ID": stage, "Stage Attempt ID": 0, "Stage Name": f"stage {stage}"}
    told |= {"RDD Info": scopes, "Submission Time": 500, "Completion Time": 500 + 1000 * seconds}
    return {"Event": "SparkListenerStageCompleted", "Stage Info": told | info}


START = [
    {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"},
    {"Event": "SparkListenerApplicationStart", "App Name": "clicks"},
    {
        "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
        "executionId": 3,
        "description": "count at\n Clicks",
    },
    {
        "Event": "SparkListenerJobStart",
        "Stage IDs": [0, 1],
        "Properties": {"spark.sql.execution.id": "3"},
    },
]


def task_start(stage, partition, launched, *, number, attempt=0):
    return {
        "Event": "SparkListenerTaskStart",
        "Stage ID": stage,
        "Stage Attempt ID": attempt,
        "Task Info": {"Task ID": number, "Index": partition, "Launch Time": launched},
    }


def stage_start(stage, *operators):
    submitted = stage_end(stage, *operators)
    del submitted["Stage Info"]["Completion Time"]
    return submitted | {"Event": "SparkListenerStageSubmitted"}


def found(*events):
    return find_stragglers(summarise([*START, *events]))


def job(number, stages, submitted, ended, stream=None):
    """Return the beginning and the end of a job; times are seconds."""
    properties = {} if stream is None else {"sql.streaming.queryId": stream}
    about = {"Job ID": number, "Stage IDs": stages, "Properties": properties}
    return [
        {"Event": "SparkListenerJobStart", "Submission Time": round(1000 * submitted), **about},
        {"Event": "SparkListenerJobEnd", "Job ID": number, "Completion Time": round(1000 * ended)},
    ]


def ran(number, tasks, submitted, ended, parents=(), attempt=0, **more):
    """Return the events of a stage; `tasks` are launches, lengths, records; times are seconds."""
    about = {"Parent IDs": list(parents), "Stage Attempt ID": attempt}
    about |= {"Submission Time": round(1000 * submitted)}
    info = about | {"Completion Time": round(1000 * ended)}
    begun = stage_start(number)
    begun["Stage Info"] |= about
    return [
        begun,
        *(
            task(
                *(number, place, seconds, *records),
                launched=round(1000 * launched),
                attempt=attempt,
                **more,
            )
            for place, (launched, seconds, *records) in enumerate(tasks)
        ),
        stage_end(number, **info),
    ]


def executors(*cores):
    return [
        {
            "Event": "SparkListenerExecutorAdded",
            "Executor ID": str(place),
            "Executor Info": {"Total Cores": each},
        }
        for place, each in enumerate(cores)
    ]
