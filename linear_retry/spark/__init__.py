"""Dead letters and the journal on Spark: the names that users need.

Needs the extra `spark` (pip install 'linear-retry[spark]') and Java 17.
"""

from linear_retry.spark.foreach_batch import ForeachBatch, foreach_batch
from linear_retry.spark.ingest.ingest import Ingested, ingest
from linear_retry.spark.lake.lake import DEAD_LETTERS, JOURNAL, Lake, LakeError
from linear_retry.spark.outages.outages import OUTAGES, outages
from linear_retry.spark.replay import Replayed, replay
from linear_retry.spark.report.report import Reported, ReportError, report
from linear_retry.spark.tune.tune import Simulated, Tuned, groups, simulate, tune

__all__ = [
    "DEAD_LETTERS",
    "JOURNAL",
    "OUTAGES",
    "ForeachBatch",
    "Ingested",
    "Lake",
    "LakeError",
    "Replayed",
    "ReportError",
    "Reported",
    "Simulated",
    "Tuned",
    "foreach_batch",
    "groups",
    "ingest",
    "outages",
    "replay",
    "report",
    "simulate",
    "tune",
]
