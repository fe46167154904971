"""The table of misbehaviours of librdkafka and Kafka, their switches and their tests."""

from dataclasses import dataclass

ALWAYS = "always"
"""So it behaves, and so the fake does, without a switch."""

_PAUSES = "consumer/misbehaviours/test_pauses.py"
_READS = "consumer/misbehaviours/test_reads.py"
_RESETS = "consumer/partitions/test_offset_reset.py"
_REPLACED = "consumer/operations/test_replaced_log.py"
_WAITS = "consumer/misbehaviours/test_waits.py"
_GROUP = "consumer/misbehaviours/test_group.py"
_COMMITS = "consumer/misbehaviours/test_commits.py"
_LETTERS = "consumer/misbehaviours/test_letters.py"
_CONTRACT = "kafka/test_kafka_contract.py"
_TRANSACTIONS = "kafka/test_transactions_contract.py"


@dataclass(frozen=True, slots=True)
class Misbehaviour:
    """`how`: a switch of `Faults`, a command of `FakeKafka` or of its clock, or `ALWAYS`.

    `test` is one of `tests/` that has the loop, or where nothing needs it the fake, go through it.
    """

    what: str
    how: str
    test: str


MISBEHAVIOURS = (
    Misbehaviour(
        "paused, a partition delivers (librdkafka #5591)",
        "leak",
        f"{_PAUSES}::test_a_paused_partition_leaks_again_and_again",
    ),
    Misbehaviour(
        "paused right after the assign it delivers all (librdkafka #5591)",
        "race",
        f"{_PAUSES}::test_a_pause_right_after_the_assign_is_lost",
    ),
    Misbehaviour(
        "a pause has no effect",
        "ignore_pause",
        "consumer/test_scopes.py::test_a_pause_without_effect_is_repeated",
    ),
    Misbehaviour(
        "a partition is dead: no error, nothing comes, resume and seek do not help",
        "kill",
        "consumer/test_scopes.py::test_a_dead_partition_is_revived_while_others_are_open",
    ),
    Misbehaviour(
        "the pause flag survives revoke and loss (confluent-kafka-go #193)",
        ALWAYS,
        f"{_PAUSES}::test_the_pause_flag_survives_a_revoke",
    ),
    Misbehaviour(
        "a pause before the assign is nothing",
        ALWAYS,
        f"{_CONTRACT}::TestContract::test_pause_before_assign",
    ),
    Misbehaviour(
        "new partitions come unpaused",
        "add_partitions",
        f"{_PAUSES}::test_new_partitions_while_open",
    ),
    Misbehaviour(
        "a pause right after a seek undoes it (librdkafka #3471)",
        "pause_loses_seek",
        f"{_PAUSES}::test_a_pause_undoes_a_seek",
    ),
    Misbehaviour("a seek fails", "fail_seek", f"{_PAUSES}::test_a_seek_fails_as_the_circuit_opens"),
    Misbehaviour(
        "a seek right after a rebalance fails (librdkafka #2190, #5345)",
        "refuse_early_seek",
        f"{_PAUSES}::test_seeks_fail_right_after_an_assign",
    ),
    Misbehaviour(
        "pause, resume or assign is refused, or interrupted inside a callback",
        "raise_in_call",
        f"{_READS}::test_an_interrupt_inside_a_callback",
    ),
    Misbehaviour(
        "a resume alone takes up to a second", "late_resume_s", f"{_PAUSES}::test_a_late_resume"
    ),
    Misbehaviour(
        "what `consume` returned does not come again on resume",
        ALWAYS,
        f"{_CONTRACT}::TestContract::test_resume_skips_what_was_consumed",
    ),
    Misbehaviour(
        "the first message is a later one",
        "jump",
        f"{_READS}::test_the_first_message_is_a_later_one",
    ),
    Misbehaviour(
        "the first message is the one before",
        "stale",
        f"{_READS}::test_the_first_message_is_the_one_before",
    ),
    Misbehaviour(
        "amid its messages a partition goes back, by itself (librdkafka #4637, #4686)",
        "rewind",
        f"{_READS}::test_what_was_read_comes_again",
    ),
    Misbehaviour(
        "what there is comes in pieces, so that an owner goes before it has seen all of it",
        "few_at_once",
        "consumer/lanes/test_key_plays.py::test_nothing_is_lost_and_each_key_is_in_order",
    ),
    Misbehaviour(
        "the first message takes longer than any timeout",
        "late_fetch_s",
        f"{_READS}::test_a_slow_broker",
    ),
    Misbehaviour(
        "the broker's clock is off",
        "broker_ahead_s",
        f"{_WAITS}::test_clocks_that_are_off",
    ),
    Misbehaviour(
        "the leader of a partition is away",
        "leaderless",
        "consumer/operations/test_replaced_log.py"
        "::test_a_partition_without_a_leader_holds_up_no_other",
    ),
    Misbehaviour(
        "markers at the end, which nobody reads", ALWAYS, f"{_READS}::test_markers_at_the_end"
    ),
    Misbehaviour("gaps in the offsets", "append", f"{_READS}::test_gaps_everywhere"),
    Misbehaviour(
        "the end is reported again after a resume and a seek",
        ALWAYS,
        f"{_CONTRACT}::TestContract::test_end_of_partition",
    ),
    Misbehaviour(
        "a broker loses the end of its log, and gives the offsets again",
        "truncate",
        f"{_RESETS}::test_a_truncated_log_is_read_on_where_it_was_cut",
    ),
    Misbehaviour(
        "a topic is deleted and created again, and its leader epochs begin at 0 again",
        "recreate_topic",
        f"{_REPLACED}::test_a_topic_that_is_created_again_is_read",
    ),
    Misbehaviour(
        "retention runs past the next offset",
        "delete_records",
        "consumer/partitions/test_retention.py::test_another_fails_right_after_the_loss",
    ),
    Misbehaviour(
        "begun again at a logical offset it goes back there later",
        ALWAYS,
        "consumer/partitions/test_retention.py::test_lost_in_several_partitions",
    ),
    Misbehaviour(
        "where a partition begins, and ends, is not answered in time",
        "silence_edges",
        f"{_READS}::test_the_end_is_not_known_when_something_is_lost",
    ),
    Misbehaviour(
        "what is missing is reported twice",
        "echo",
        f"{_READS}::test_what_is_out_of_range_is_reported_again",
    ),
    Misbehaviour(
        "an offset is not answered while a transaction may commit more",
        ALWAYS,
        f"{_READS}::test_a_first_offset_that_is_not_decided",
    ),
    Misbehaviour(
        "`headers()` raises, and then has a null pointer in it",
        "spoil_headers",
        f"{_READS}::test_headers_that_end_the_process",
    ),
    Misbehaviour(
        "the admin client's answers take long, or do not come",
        "admin_answer_s",
        f"{_READS}::test_a_watchdog_without_an_answer",
    ),
    Misbehaviour(
        "a poll raises, and what it had taken is gone",
        "raise_in_poll",
        f"{_READS}::test_an_exception_out_of_poll",
    ),
    Misbehaviour(
        "a member that is out looks healthy", "lose", f"{_GROUP}::test_a_zombie_learns_of_it_late"
    ),
    Misbehaviour(
        "it is given a revoke (librdkafka #5604)",
        "lost_as_revoked",
        f"{_GROUP}::test_a_zombie_learns_of_it_late",
    ),
    Misbehaviour(
        "its commits are taken for a while (KIP-848)",
        "zombies_commit",
        f"{_GROUP}::test_a_zombies_commits_are_taken",
    ),
    Misbehaviour(
        "its client forgets all brokers, and says nothing (librdkafka #5301)",
        "blind",
        "consumer/operations/test_broker.py::test_a_blind_member_comes_back_and_goes_on",
    ),
    Misbehaviour(
        "its client forgets to join anew, and dies of it (KIP-848)",
        "refuse",
        "consumer/operations/test_client_replacement.py::test_a_refused_member_comes_back_and_goes_on",
    ),
    Misbehaviour(
        "a rebalance inside `consume`",
        "share",
        f"{_GROUP}::test_a_rebalance_inside_the_second_call",
    ),
    Misbehaviour(
        "what `consume` took of a revoked partition stays in it",
        "outdated_stay",
        f"{_GROUP}::test_a_rebalance_inside_the_second_call",
    ),
    Misbehaviour(
        "callbacks with no partition", "call_back_empty", f"{_GROUP}::test_a_rebalance_of_nothing"
    ),
    Misbehaviour(
        "who polls too late is out, and learns of it later",
        ALWAYS,
        "consumer/test_rare_moments.py::test_a_listener_takes_too_long",
    ),
    Misbehaviour(
        "fenced, without being called fatal, and joining once more",
        "fence",
        f"{_GROUP}::test_a_fenced_member_would_rejoin",
    ),
    Misbehaviour("`close` takes long", "close_takes_s", f"{_GROUP}::test_a_close_that_takes_long"),
    Misbehaviour(
        "`close` does not return", "close_hangs", f"{_GROUP}::test_a_close_that_never_returns"
    ),
    Misbehaviour(
        "a topic is deleted while it is read, and made again",
        "delete_topic",
        f"{_GROUP}::test_a_topic_that_goes_and_comes_back",
    ),
    Misbehaviour(
        "the brokers are down, and nothing says so",
        "brokers_down",
        f"{_GROUP}::test_brokers_are_down_while_open",
    ),
    Misbehaviour(
        "`error_cb` is called hundreds of times",
        "errors_per_poll",
        f"{_GROUP}::test_brokers_are_down_while_open",
    ),
    Misbehaviour("the time of day is set", "step_wall", f"{_GROUP}::test_the_time_of_day_is_set"),
    Misbehaviour(
        "the machine sleeps, whether its clock sees that or not",
        "suspend",
        f"{_GROUP}::test_the_machine_slept",
    ),
    Misbehaviour(
        "another's partition may be committed",
        ALWAYS,
        f"{_CONTRACT}::TestContract::test_commit_of_unowned",
    ),
    Misbehaviour(
        "a commit is refused, or landed all the same",
        "fail_commit",
        f"{_COMMITS}::test_commits_are_refused_for_now",
    ),
    Misbehaviour(
        "one partition of a commit is refused",
        "fail_commit_of",
        f"{_COMMITS}::test_one_partition_of_a_commit_is_refused",
    ),
    Misbehaviour(
        "a commit is answered late, after the revoke, or never",
        "commit_answer_s",
        f"{_COMMITS}::test_a_commit_is_answered_after_the_revoke",
    ),
    Misbehaviour(
        "a commit lands late",
        "commits_land_late",
        f"{_COMMITS}::test_commits_are_never_answered",
    ),
    Misbehaviour(
        "a commit is retried, and lands behind a later one",
        "commits_retried",
        f"{_COMMITS}::test_a_commit_is_retried",
    ),
    Misbehaviour(
        "a commit is refused for the length of its metadata",
        "longest_note",
        "consumer/partitions/test_commit_notes.py::test_a_broker_that_takes_no_long_text",
    ),
    Misbehaviour(
        "a synchronous commit blocks",
        "commit_blocks_s",
        f"{_COMMITS}::test_a_commit_on_revoke_blocks",
    ),
    Misbehaviour(
        "a record is not delivered, or is and reported as not",
        "fail_delivery",
        f"{_LETTERS}::test_a_timeout_is_ambiguous",
    ),
    Misbehaviour("a report comes late", "delivery_s", f"{_LETTERS}::test_a_report_comes_late"),
    Misbehaviour("a report never comes", "lose_report", f"{_LETTERS}::test_no_report_ever_comes"),
    Misbehaviour(
        "`produce` raises, as where the queue is full",
        "raise_in_produce",
        f"{_LETTERS}::test_the_queue_is_full",
    ),
    Misbehaviour("a producer's fatal error", "break_producer", f"{_LETTERS}::test_a_fatal_error"),
    Misbehaviour("the topic takes less", "create_topic", f"{_LETTERS}::test_the_topic_takes_less"),
    Misbehaviour(
        "a record to a missing topic takes half a minute",
        ALWAYS,
        f"{_LETTERS}::test_the_topic_is_gone",
    ),
    Misbehaviour(
        "a header of the wrong kind is refused, cut, or ends the process",
        ALWAYS,
        f"{_CONTRACT}::TestContract::test_headers_refused",
    ),
    Misbehaviour(
        "a call fails, done or not, or done later",
        "fail_transaction",
        f"{_LETTERS}::test_an_offset_lands_in_another_transaction",
    ),
    Misbehaviour(
        "the group has another generation",
        "move_on",
        "consumer/letters/test_transactions.py::test_the_group_has_moved_on",
    ),
    Misbehaviour(
        "of a transaction's offset and a later commit the commit stays",
        ALWAYS,
        f"{_TRANSACTIONS}::TestContract::test_lower_commit",
    ),
    Misbehaviour(
        "a transaction that lasts too long is aborted, its producer fenced",
        ALWAYS,
        "consumer/letters/test_transactions.py::test_broker_that_times_a_transaction_out",
    ),
)
