import os
from pathlib import Path

import pytest

from alance.errors import InvalidInputError
from alance.io.uri import StoreConfig, parse_uri


@pytest.mark.parametrize(
    ("uri", "url", "path"),
    [
        ("s3://bucket/a/b.lance", "s3://bucket", "a/b.lance"),
        ("s3://bucket/a/b.lance/", "s3://bucket", "a/b.lance"),
        ("s3://bucket", "s3://bucket", ""),
        ("s3://bucket/", "s3://bucket", ""),
        ("gs://bucket/x", "gs://bucket", "x"),
        ("az://container/x", "az://container", "x"),
        ("memory://x/y", "memory://", "x/y"),
        ("memory:///x/y", None, None),
        ("memory://", "memory://", ""),
        ("s3://bucket/a b/c%20d/%C3%BC/e%3Ff", "s3://bucket", "a b/c d/ü/e?f"),
        ("file:///tmp/a%20b", "file://", "tmp/a b"),
        ("file://localhost/tmp/a", "file://", "tmp/a"),
        ("/tmp/a/../b//c/", "file://", "tmp/b/c"),
        ("/tmp/c%20d?e#f", "file://", "tmp/c%20d?e#f"),
        ("/", "file://", ""),
    ],
)
def test_places(uri: str, url: str | None, path: str | None) -> None:
    if url is None:
        with pytest.raises(InvalidInputError, match="empty segment"):
            parse_uri(uri)
        return
    config, found = parse_uri(uri)
    assert (config.url, found) == (url, path)


def test_relative_paths_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    here = os.path.realpath(tmp_path).strip("/")
    assert parse_uri("x.lance")[1] == f"{here}/x.lance"
    assert parse_uri(Path("a") / ".." / "b")[1] == f"{here}/b"
    assert parse_uri("~/x.lance")[1] == "home/someone/x.lance"


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("ftp://host/x", r"scheme 'ftp' is unknown; one of s3, gs, az, s3\+ddb, file, memory"),
        ("s3:///x", "names no bucket"),
        ("gs://", "names no bucket"),
        ("s3://bucket/a//b", "empty segment"),
        ("s3://bucket/a/../b", "'..'"),
        ("s3://bucket/a/%2E%2E/b", "'..'"),
        ("s3://bucket/a?b", r"'\?' and '#'"),
        ("az://container/a#b", r"'\?' and '#'"),
        ("file://tmp/x", "three slashes"),
        ("file://", "three slashes"),
        ("", "no path"),
        ("a\0b", "no path"),
    ],
)
def test_what_is_refused(uri: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        parse_uri(uri)


def test_a_dynamodb_table_beside_the_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DYNAMODB_ENDPOINT", raising=False)
    options = {"aws_region": "eu-central-1", "dynamodb_endpoint": "http://localhost:1"}
    config, path = parse_uri("s3+ddb://bucket/a/b%20c?ddbTableName=my-table", options)
    assert (config.url, path) == ("s3://bucket", "a/b c")
    assert (config.manifest_table, config.manifest_endpoint) == ("my-table", "http://localhost:1")
    assert config.options == (("aws_region", "eu-central-1"),)
    plain, _ = parse_uri("s3://bucket/x", options)
    assert (plain.manifest_table, plain.key) == (None, config.key)
    monkeypatch.setenv("DYNAMODB_ENDPOINT", "http://localhost:2")
    config, _ = parse_uri("s3+ddb://bucket/x?ddbTableName=t")
    assert config.manifest_endpoint == "http://localhost:2"


@pytest.mark.parametrize("query", ["", "?", "?ddbTableName=", "?table=t", "?ddbTableName=t&x=1"])
def test_a_dynamodb_table_must_be_named(query: str) -> None:
    with pytest.raises(InvalidInputError, match="ddbTableName=table"):
        parse_uri(f"s3+ddb://bucket/x{query}")


def test_stores_known_to_honour_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for uri in ("s3://bucket/x", "gs://bucket/x", "az://box/x", "/x", "memory://x"):
        assert parse_uri(uri, {"aws_region": "eu-central-1"})[0].is_known
    for option in ("aws_endpoint", "AWS_ENDPOINT_URL", "endpoint", "endpoint_url"):
        assert not parse_uri("s3://bucket/x", {option: "http://localhost:1"})[0].is_known
        assert parse_uri("gs://bucket/x", {option: "http://localhost:1"})[0].is_known
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:1")
    assert not parse_uri("s3://bucket/x")[0].is_known


def test_options_become_text() -> None:
    given = {
        "AWS_Region": "eu-central-1",
        "allow_http": True,
        "aws_virtual_hosted_style_request": False,
        "client_max_retries": 3,
        "request_timeout": "10s",
        "google_service_account": "passed over",
        "azure_storage_account_name": "passed over",
    }
    assert parse_uri("s3://bucket", given)[0].options == (
        ("allow_http", "true"),
        ("aws_region", "eu-central-1"),
        ("aws_virtual_hosted_style_request", "false"),
        ("client_max_retries", "3"),
        ("timeout", "10s"),
    )
    assert parse_uri("gs://bucket", {"google_service_account": "x", "aws_region": "y"})[
        0
    ].options == (("google_service_account", "x"),)


@pytest.mark.parametrize("uri", ["memory://x", "/tmp/x"])
def test_near_stores_pass_over_options(uri: str) -> None:
    assert parse_uri(uri, {"aws_region": "x"})[0].key == parse_uri(uri)[0].key


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"aws_region": None}, "aws_region"),
        ({"timeout": 1.5}, "timeout"),
        ({"credential_provider": "text"}, "credential_provider"),
    ],
)
def test_values_of_no_known_kind(options: dict[str, object], name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"'{name}' must be"):
        parse_uri("s3://bucket", options)


def test_providers_and_stores_in_place_of_options() -> None:
    def provider() -> dict[str, str]:
        return {}

    store = object()
    within = parse_uri("s3://b/x", {"credential_provider": provider, "region": "r"})[0]
    assert (within.credentials, within.options) == (provider, (("region", "r"),))
    assert parse_uri("s3://b/x", provider)[0].credentials is provider
    assert parse_uri("s3://b/x", store)[0].store is store


def test_configs_share_a_store_when_all_is_equal() -> None:
    def key(*given: object) -> object:
        return parse_uri(*given)[0].key  # type: ignore[arg-type]

    assert key("s3://b/x", {"region": "r"}) == key("s3://b/y", {"REGION": "r"})
    assert key("s3://b/x", {"region": "r"}) != key("s3://b/x", {"region": "s"})
    assert key("s3://b/x") != key("s3://c/x")
    assert key("gs://b/x") != key("s3://b/x")
    assert key("s3://b/x", object) != key("s3://b/x")
    assert key("memory://x") == key("memory://y/z")
    assert StoreConfig("file", "").key == key("/tmp/x")
