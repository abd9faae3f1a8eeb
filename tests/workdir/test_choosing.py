"""Which checkpoint a run goes on from: the newest of which no part is missing."""

from __future__ import annotations

import pytest

from muster.workdir.checkpoints import Checkpoint, Complete
from muster.workdir.choosing import Choice, choose, grouped
from muster.workdir.manifest import FileEntry, Manifest

pytestmark = pytest.mark.unit

Part = tuple[str, Checkpoint]


def part(node: str, name: str, at: float, generation: int = 1, ordinal: int = 1, files: str = "") -> Part:
    paths = [f"{name}/{file}" for file in files.split()] or [name]
    manifest = Manifest(tuple(FileEntry(path, 1, f"{node} {path} {at}") for path in paths))
    return node, Checkpoint(int(at), name, manifest, Complete(at, generation, ordinal))


def chosen(*parts: Part, node: str = "main", members: dict[int, str] | None = None) -> Choice:
    known = {generation: frozenset(nodes.split()) for generation, nodes in (members or {}).items()}
    return choose(grouped(parts), node, known.get)


def names(choice: Choice) -> list[str]:
    return [group.name for group in choice.groups]


def test_the_newest_is_chosen_whoever_wrote_it() -> None:
    assert names(chosen(part("main", "epoch-1", 100), part("worker-1", "epoch-2", 200))) == ["epoch-2"]
    assert names(chosen()) == []


def test_what_was_only_written_in_place_is_never_chosen() -> None:
    node, whole = part("main", "epoch-1", 100)
    _, half = part("main", "epoch-2", 200)
    assert names(chosen((node, whole), (node, half._replace(complete=None)))) == ["epoch-1"]


def test_files_completed_shortly_before_belong_to_it() -> None:
    written = [part("main", name, at) for name, at in (("data-2", 96), ("index-2", 99), ("checkpoint", 100))]
    assert names(chosen(part("main", "data-1", 94), *written)) == ["checkpoint", "index-2", "data-2"]


def test_parts_of_one_name_are_one_checkpoint_of_all_their_files() -> None:
    first, second = part("main", "step-1", 100, files="shard-0"), part("worker-1", "step-1", 101, files="shard-1")
    (group,) = chosen(first, second).groups
    assert {path: source.node for path, source in group.files("worker-2").items()} == {
        "step-1/shard-0": "main",
        "step-1/shard-1": "worker-1",
    }


def test_where_several_wrote_the_same_path_a_node_gets_its_own_and_others_mains() -> None:
    (group,) = chosen(*(part(node, "last", 100) for node in ("worker-1", "main", "worker-2"))).groups
    given = {node: group.files(node)["last"].node for node in ("main", "worker-1", "worker-2", "worker-3")}
    assert given == {"main": "main", "worker-1": "worker-1", "worker-2": "worker-2", "worker-3": "main"}


def test_one_that_lacks_a_nodes_part_is_passed_over_for_one_that_has_all() -> None:
    both = [part("main", "step-1", 100), part("worker-1", "step-1", 101)]
    choice = chosen(*both, part("main", "step-2", 200))
    assert names(choice) == ["step-1"]
    assert [group.name for group in choice.passed] == ["step-2"]
    assert names(chosen(*both, part("main", "step-2", 200), part("worker-1", "step-2", 201))) == ["step-2"]


def test_names_of_another_kind_tell_nothing_of_who_should_have_written() -> None:
    tokenizers = [part("main", "tokenizer.json", 10), part("worker-1", "tokenizer.json", 10)]
    assert names(chosen(*tokenizers, part("main", "epoch-1.pt", 100))) == ["epoch-1.pt"]


def test_versions_of_an_overwritten_name_are_matched_by_how_often_it_was_completed() -> None:
    main = [part("main", "last", at, ordinal=ordinal, files="shard-0") for ordinal, at in ((5, 500), (6, 600))]
    worker = [part("worker-1", "last", at, ordinal=ordinal, files="shard-1") for ordinal, at in ((4, 401), (5, 501))]
    (group,) = chosen(*main, *worker).groups
    assert (group.ordinal, group.writers) == (5, frozenset({"main", "worker-1"}))


def test_versions_that_do_not_match_are_not_mixed() -> None:
    main = [part("main", "last", at, ordinal=ordinal) for ordinal, at in ((6, 600), (7, 700))]
    worker = [part("worker-1", "last", at, ordinal=ordinal) for ordinal, at in ((4, 401), (5, 501))]
    older = part("main", "before", 10)
    assert names(chosen(*main, *worker, older, members={1: "main worker-1"})) == ["before"]


def test_a_worker_that_left_long_ago_is_not_waited_for_where_workers_come_and_go() -> None:
    main = [part("main", "last", at, ordinal=ordinal) for ordinal, at in ((6, 600), (7, 700))]
    (group,) = chosen(*main, part("worker-1", "last", 100, ordinal=1)).groups
    assert group.ordinal == 7


def test_the_first_of_a_generation_is_measured_by_the_generation_before_and_its_own_members() -> None:
    before = [part(node, "step-1", 100, files=node) for node in ("main", "worker-1", "worker-2")]
    after = [part("main", "step-2", 200, generation=2), part("worker-1", "step-2", 200, generation=2)]
    assert names(chosen(*before, *after, members={2: "main worker-1 worker-2"})) == ["step-1"]
    assert names(chosen(*before, *after, members={2: "main worker-1"})) == ["step-2"]


def test_generations_are_not_mixed() -> None:
    before = [part("main", "last", 100, files="a"), part("worker-1", "last", 100, files="b")]
    after = part("main", "last", 200, generation=2, files="a")
    (group,) = chosen(*before, after, members={2: "main worker-1"}).groups
    assert group.generation == 1


def test_a_set_that_may_be_only_begun_comes_with_the_whole_one_before() -> None:
    # TensorFlow was killed before it could say in `checkpoint` that ckpt-2 is there.
    first = [part("main", name, 100) for name in ("ckpt-1.data", "ckpt-1.index", "checkpoint")]
    second = [part("main", name, 200) for name in ("ckpt-2.data", "ckpt-2.index")]
    choice = chosen(*first, *second, node="worker-1")
    assert sorted(names(choice)) == ["ckpt-2.data", "ckpt-2.index"]
    assert sorted(group.name for group in choice.besides) == ["checkpoint", "ckpt-1.data", "ckpt-1.index"]


def test_a_node_gets_what_it_wrote_last_itself_as_well() -> None:
    parts = [part("main", "rank-0.pt", 200), part("worker-1", "rank-1.pt", 100)]
    assert [group.name for group in chosen(*parts, node="worker-1").besides] == ["rank-1.pt"]
    assert chosen(*parts, node="worker-2").besides == []


def test_what_proved_bad_is_passed_over_with_all_that_is_not_older() -> None:
    parts = [part("main", "epoch-1", 100), part("main", "data-2", 200), part("main", "checkpoint", 201)]
    choice = choose(grouped(parts), "main", lambda _: None, before=200.0)
    assert names(choice) == ["epoch-1"]
    assert sorted(group.name for group in choice.passed) == ["checkpoint", "data-2"]
    assert choose(grouped(parts), "main", lambda _: None, before=100.0).groups == []
