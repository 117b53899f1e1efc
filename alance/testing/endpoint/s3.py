"""The S3 protocol over objects: requests in, answers out, nothing awaited."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from urllib.parse import unquote
from xml.sax.saxutils import escape

from alance.testing.endpoint.http import Answer, HttpRequest
from alance.testing.endpoint.objects import Objects, Stored

__all__ = ["S3", "ObjectAnswer", "error_answer", "kind_of"]

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
KEYS_PER_PAGE = 1000


@dataclass(frozen=True, slots=True)
class ObjectAnswer:
    """An answer whose body is a range of an object, to be read while it is sent."""

    status: int
    stored: Stored
    start: int
    stop: int
    headers: dict[str, str]

    @property
    def num_bytes(self) -> int:
        """Length of the body."""
        return self.stop - self.start

    def read(self, start: int, stop: int) -> memoryview:
        """Bytes [start, stop) of the body; fewer where the object has become shorter."""
        return self.stored.read(self.start + start, self.start + stop)


def kind_of(request: HttpRequest) -> str:
    """Name under which a request is counted."""
    query, headers = request.query, request.headers
    if request.method == "GET":
        return "get" if request.path.strip("/").count("/") and "uploads" not in query else "list"
    if request.method == "PUT":
        if "partNumber" in query:
            return "part"
        if "x-amz-copy-source" in headers:
            return "copy"
        return "put_if_absent" if "if-none-match" in headers else "put"
    if request.method == "POST":
        posts = {"uploads": "create", "uploadId": "complete", "delete": "delete_many"}
        return next((kind for name, kind in posts.items() if name in query), "post")
    if request.method == "DELETE":
        return "abort" if "uploadId" in query else "delete"
    return request.method.lower()


class S3:
    """Answers requests; any signature will do.

    Parameters
    ----------
    objects
        What is stored.
    honours_condition
        Whether `If-None-Match: *` refuses to replace; False is a store that ignores it.
    """

    def __init__(self, objects: Objects, *, honours_condition: bool = True) -> None:
        self.objects = objects
        self.honours_condition = honours_condition
        self.uploads: dict[str, tuple[str, dict[int, bytes]]] = {}
        self._num_uploads = 0

    def answer(self, request: HttpRequest) -> Answer | ObjectAnswer:
        """Do what a request asks for."""
        key = request.path[1:]
        bucket, _, name = key.partition("/")
        if not bucket:
            return error_answer(501, "NotImplemented", "no list of buckets")
        if request.method in {"GET", "HEAD"} and name:
            return self._get(request, key)
        if request.method == "GET":
            return self._list(bucket, request.query)
        if request.method == "PUT":
            return self._put(request, key) if name else Answer(200)
        if request.method == "POST":
            return self._post(request, bucket, key)
        if request.method == "DELETE":
            if "uploadId" in request.query:
                self.uploads.pop(request.query["uploadId"], None)
            else:
                self.objects.remove(key)
            return Answer(204)
        return Answer(200 if request.method == "HEAD" else 501)

    def _get(self, request: HttpRequest, key: str) -> Answer | ObjectAnswer:
        stored = self.objects.find(key)
        if stored is None:
            return error_answer(404, "NoSuchKey", "The specified key does not exist.")
        wanted = request.headers.get("if-match")
        if wanted is not None and wanted not in {"*", stored.etag}:
            return error_answer(412, "PreconditionFailed", "The object is another one.")
        headers = {
            "etag": stored.etag,
            "last-modified": formatdate(stored.modified_s, usegmt=True),
            "content-type": "application/octet-stream",
            "accept-ranges": "bytes",
        }
        if request.headers.get("if-none-match") == stored.etag:
            return Answer(304, headers=headers)
        size = stored.num_bytes
        asked = request.headers.get("range")
        if asked is None:
            return ObjectAnswer(200, stored, 0, size, headers)
        start, stop = _range(asked, size)
        if start >= stop:
            return error_answer(416, "InvalidRange", "The requested range is not satisfiable")
        headers["content-range"] = f"bytes {start}-{stop - 1}/{size}"
        return ObjectAnswer(206, stored, start, stop, headers)

    def _list(self, bucket: str, query: dict[str, str]) -> Answer:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        keys_max = min(int(query.get("max-keys", KEYS_PER_PAGE)), KEYS_PER_PAGE)
        rows, names, last = [], 0, ""
        found = self.objects.keys(f"{bucket}/{prefix}", f"{bucket}/{after}" if after else "")
        more = False
        for name, is_folder in _grouped(found, len(bucket) + 1, prefix, delimiter, after):
            if names == keys_max:
                more = True
                break
            names, last = names + 1, name
            rows.append(_folder(name) if is_folder else self._row(bucket, name))
        token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if more else ""
        return _xml(
            "ListBucketResult",
            f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{names}</KeyCount>"
            f"<MaxKeys>{keys_max}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"{token}{''.join(rows)}",
        )

    def _row(self, bucket: str, name: str) -> str:
        stored = self.objects.find(f"{bucket}/{name}")
        if stored is None:
            return ""  # removed since it was listed
        modified = datetime.fromtimestamp(stored.modified_s, UTC).isoformat(timespec="milliseconds")
        return (
            f"<Contents><Key>{escape(name)}</Key><LastModified>{modified[:-6]}Z</LastModified>"
            f"<ETag>{escape(stored.etag)}</ETag><Size>{stored.num_bytes}</Size>"
            "<StorageClass>STANDARD</StorageClass></Contents>"
        )

    def _put(self, request: HttpRequest, key: str) -> Answer:
        if "partNumber" in request.query:
            upload = self.uploads.get(request.query.get("uploadId", ""))
            if upload is None:
                return error_answer(404, "NoSuchUpload", "The upload does not exist.")
            part = int(request.query["partNumber"])
            upload[1][part] = request.body
            return Answer(200, headers={"etag": f'"{part:x}-{len(request.body):x}"'})
        if self._refuses(request, key):
            return error_answer(412, "PreconditionFailed", "The object exists.")
        source = request.headers.get("x-amz-copy-source")
        if source is None:
            stored = self.objects.write(key, [request.body])
            return Answer(200, headers={"etag": stored.etag})
        copied = self.objects.find(unquote(source).lstrip("/"))
        if copied is None:
            return error_answer(404, "NoSuchKey", "The source does not exist.")
        stored = self.objects.write(key, [bytes(copied.read(0, copied.num_bytes))])
        return _xml("CopyObjectResult", f"<ETag>{escape(stored.etag)}</ETag>")

    def _refuses(self, request: HttpRequest, key: str) -> bool:
        conditional = request.headers.get("if-none-match") == "*"
        return conditional and self.honours_condition and self.objects.find(key) is not None

    def _post(self, request: HttpRequest, bucket: str, key: str) -> Answer:
        query = request.query
        if "uploads" in query:
            self._num_uploads += 1
            upload_id = f"upload-{self._num_uploads}"
            self.uploads[upload_id] = (key, {})
            return _xml(
                "InitiateMultipartUploadResult",
                f"<Bucket>{bucket}</Bucket><Key>{escape(key.partition('/')[2])}</Key>"
                f"<UploadId>{upload_id}</UploadId>",
            )
        if "uploadId" in query:
            return self._complete(request, key)
        if "delete" in query:
            names = [one.text or "" for one in _elements(request.body, "Key")]
            for name in names:
                self.objects.remove(f"{bucket}/{name}")
            deleted = (f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in names)
            return _xml("DeleteResult", "".join(deleted))
        return error_answer(501, "NotImplemented", "no such request")

    def _complete(self, request: HttpRequest, key: str) -> Answer:
        upload = self.uploads.get(request.query["uploadId"])
        if upload is None or upload[0] != key:
            return error_answer(404, "NoSuchUpload", "The upload does not exist.")
        if self._refuses(request, key):
            return error_answer(412, "PreconditionFailed", "The object exists.")
        parts = [int(one.text or "0") for one in _elements(request.body, "PartNumber")]
        if not parts or parts != sorted(parts) or not upload[1].keys() >= set(parts):
            return error_answer(400, "InvalidPart", "Parts are missing, or not in order.")
        stored = self.objects.write(key, [upload[1][part] for part in parts])
        del self.uploads[request.query["uploadId"]]
        return _xml(
            "CompleteMultipartUploadResult",
            f"<Bucket>{key.partition('/')[0]}</Bucket><Key>{escape(key.partition('/')[2])}</Key>"
            f"<ETag>{escape(stored.etag)}</ETag>",
        )


def error_answer(status: int, code: str, message: str) -> Answer:
    """An error as S3 words it."""
    body = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    return Answer(status, body.encode(), {"content-type": "application/xml"})


def _xml(name: str, inner: str) -> Answer:
    body = f'<?xml version="1.0" encoding="UTF-8"?><{name} xmlns="{NAMESPACE}">{inner}</{name}>'
    return Answer(200, body.encode(), {"content-type": "application/xml"})


def _folder(name: str) -> str:
    return f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"


def _elements(body: bytes, name: str) -> Iterable[ET.Element]:
    """Elements of a document by their name, in whatever namespace."""
    return (one for one in ET.fromstring(body).iter() if one.tag.rpartition("}")[2] == name)


def _grouped(
    keys: Iterator[str], skip: int, prefix: str, delimiter: str, after: str
) -> Iterator[tuple[str, bool]]:
    """Names without their bucket; those that share a folder below `prefix` as that folder, once."""
    last = ""
    for key in keys:
        name = key[skip:]
        head, found, _ = name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "")
        if not found:
            yield name, False
            continue
        folder = f"{prefix}{head}{delimiter}"
        if folder not in {last, after}:
            last = folder
            yield folder, True


def _range(asked: str, size: int) -> tuple[int, int]:
    """Bytes that a Range header asks for, of those that are there; empty when there are none."""
    first, _, last = asked.removeprefix("bytes=").partition("-")
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(int(last) + 1, size) if last else size
