from pathlib import Path

import obstore.store
import pytest

from alance.errors import InvalidInputError
from alance.io.opening import open_store, path_in_store
from alance.io.uri import parse_uri


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("s3://bucket", {"region": "r", "endpoint": "http://x", "allow_http": True}),
        ("s3://bucket", {"AWS_ENDPOINT_URL": "http://x", "aws_virtual_hosted_style_request": "0"}),
        ("s3://bucket", {"request_timeout": "5s", "connect_timeout": "1s", "user_agent": "u"}),
        ("s3://bucket", {"client_max_retries": 2, "client_retry_timeout": "9"}),
        ("s3://bucket", dict),
        ("gs://bucket", {"google_skip_signature": True}),
        ("az://container", {"azure_storage_account_name": "a", "account_key": "YQ=="}),
        ("memory://x", {"region": "r"}),
        ("/tmp", {"region": "r"}),
    ],
)
def test_options_of_every_store(uri: str, options: object) -> None:
    config, _ = parse_uri(uri, options)
    assert open_store(config).url == config.url


@pytest.mark.parametrize(
    ("uri", "options", "said"),
    [
        ("s3://bucket", {"aws_nope": "1"}, "'aws_nope'"),
        ("s3://bucket", {"region": "a", "aws_region": "b"}, "aws_region"),
        ("s3://bucket", {"timeout": "soon"}, "soon"),
        ("s3://bucket", {"client_max_retries": "many"}, "'client_max_retries'.*'many'"),
        ("s3://bucket", {"client_retry_timeout": "-1"}, "'client_retry_timeout'.*'-1'"),
        ("gs://bucket", {"google_service_account_key": "{}"}, "service account"),
        ("az://container", {"azure_storage_account_key": "YQ=="}, "(?i)account"),
    ],
)
def test_bad_options_are_named(uri: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        open_store(parse_uri(uri, options)[0])


def s3(bucket: str, prefix: str | None = None) -> obstore.store.S3Store:
    return obstore.store.S3Store(bucket, prefix=prefix, region="r")


def test_given_stores_are_used() -> None:
    given = s3("bucket")
    config, path = parse_uri("s3://bucket/a/b", given)
    assert open_store(config).url == "s3://bucket"
    assert path_in_store(config, path) == "a/b"


@pytest.mark.parametrize(
    ("uri", "path"),
    [("s3://bucket/a/b/c", "c"), ("s3://bucket/a/b", ""), ("s3://bucket/a/bc", None)],
)
def test_given_prefixes_are_taken_off(uri: str, path: str | None) -> None:
    config, full = parse_uri(uri, s3("bucket", prefix="a/b"))
    if path is None:
        with pytest.raises(InvalidInputError, match="prefix 'a/b'"):
            path_in_store(config, full)
    else:
        assert path_in_store(config, full) == path


def test_given_local_store(tmp_path: Path) -> None:
    given = obstore.store.LocalStore(tmp_path)
    config, path = parse_uri(tmp_path / "x" / "y", given)
    assert path_in_store(config, path) == "x/y"


@pytest.mark.parametrize(
    ("uri", "given", "said"),
    [
        ("gs://bucket/x", s3("bucket"), "is for s3://"),
        ("s3://other/x", s3("bucket"), "is for bucket 'bucket'"),
        ("s3://bucket/x", 17, "not int"),
        ("s3://bucket/x", obstore.store.HTTPStore.from_url("https://host"), "not HTTPStore"),
    ],
)
def test_given_stores_must_fit(uri: str, given: object, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        open_store(parse_uri(uri, given)[0])
