"""Dead letters and the journal on Spark: the names that users need.

Needs the extra `spark` (pip install 'linear-retry[spark]') and Java 17.
"""

from linear_retry.spark.history.episodes import episodes
from linear_retry.spark.history.outages import group_outages
from linear_retry.spark.history.table import update_episodes
from linear_retry.spark.history.tuning import Simulated, Tuned, groups, simulate, tune
from linear_retry.spark.ingestion.ingest import Ingested, ingest
from linear_retry.spark.lake.changes import Optimized, optimize
from linear_retry.spark.lake.lake import DEAD_LETTERS, EPISODES, JOURNAL, Lake, LakeError
from linear_retry.spark.reporting.report import Reported, ReportError, report
from linear_retry.spark.reporting.summaries import survival
from linear_retry.spark.streaming.batch import BadRows
from linear_retry.spark.streaming.foreach_batch import ForeachBatch, foreach_batch
from linear_retry.spark.tables.entries import journal
from linear_retry.spark.tables.letters import dead_letters

__all__ = [
    "DEAD_LETTERS",
    "EPISODES",
    "JOURNAL",
    "BadRows",
    "ForeachBatch",
    "Ingested",
    "Lake",
    "LakeError",
    "Optimized",
    "ReportError",
    "Reported",
    "Simulated",
    "Tuned",
    "dead_letters",
    "episodes",
    "foreach_batch",
    "group_outages",
    "groups",
    "ingest",
    "journal",
    "optimize",
    "report",
    "simulate",
    "survival",
    "tune",
    "update_episodes",
]
