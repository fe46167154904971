"""Dead letters and the journal on Spark: the names that users need.

Needs the extra `spark` (pip install 'linear-retry[spark]') and Java 17.
"""

from linear_retry.spark.episodes import OUTAGES, outages
from linear_retry.spark.ingestion.ingest import Ingested, ingest
from linear_retry.spark.lake.lake import DEAD_LETTERS, JOURNAL, Lake, LakeError
from linear_retry.spark.replaying import Replayed, replay
from linear_retry.spark.reporting.report import Reported, ReportError, report
from linear_retry.spark.streaming import ForeachBatch, foreach_batch
from linear_retry.spark.tuning import Simulated, Tuned, groups, simulate, tune

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
