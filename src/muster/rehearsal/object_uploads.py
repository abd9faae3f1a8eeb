"""Uploads in parts to Oracle's object storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .buckets import Bucket, Condition, Upload, moment
from .messages import Answer
from .object_words import BUCKET, checked_name, concurrent, condition, encryption, written
from .routing import Call, Refusal, Route, json_answer

if TYPE_CHECKING:
    from .object_storage import ObjectStorage

NAMES = {
    "contentType": "content-type",
    "contentLanguage": "content-language",
    "contentEncoding": "content-encoding",
    "contentDisposition": "content-disposition",
    "cacheControl": "cache-control",
}


class ObjectUploads:
    """The part of the service that is about uploads."""

    def __init__(self, storage: ObjectStorage) -> None:
        self._storage = storage

    def routes(self) -> list[Route]:
        upload = f"{BUCKET}/u/{{name...}}"
        return [
            Route("POST", f"{BUCKET}/u", self.create, "multipart-create"),
            Route("PUT", upload, self.put_part, "part", body_is_signed=False),
            Route("POST", upload, self.commit, "complete"),
            Route("DELETE", upload, self.abort, "abort"),
            Route("GET", f"{BUCKET}/u", self.list_uploads),
            Route("GET", upload, self.list_parts),
        ]

    def create(self, call: Call) -> Answer:
        bucket = self._storage.bucket(call, "OBJECT_CREATE")
        said = call.said()
        name = checked_name(str(said["object"]))
        condition(call).check(bucket.find(name))
        upload = Upload(name, {**_headers(said), **encryption(call, bucket)})
        with bucket.lock:
            bucket.uploads[upload.id] = upload
        return json_answer(self._described(bucket, upload))

    def put_part(self, call: Call) -> Answer:
        bucket = self._storage.bucket(call, "OBJECT_CREATE")
        upload = _upload(call, bucket)
        number = call.query.get("uploadPartNum", "")
        if not number.isdigit() or not 1 <= int(number) <= 10000:
            raise Refusal(400, "InvalidUploadPart", "uploadPartNum must be from 1 to 10000")
        blob = self._storage.take(call)
        etag = f"{upload.id}-{number}-{blob.md5}"
        with bucket.lock:
            before = upload.parts.get(int(number))
            upload.parts[int(number)] = (etag, blob)
        if before is not None:
            before[1].drop()
        return Answer(200, b"", {"etag": etag, "opc-content-md5": blob.md5})

    def commit(self, call: Call) -> Answer:
        bucket = self._storage.bucket(call, "OBJECT_CREATE")
        upload = _upload(call, bucket)
        wanted = condition(call)
        chosen = _chosen(upload, call.said())
        with self._storage.collisions.writing((bucket.name, upload.name), wanted != Condition()) as free:
            if not free:
                raise concurrent(upload.name)
            self._storage.check_overwrite(call, bucket, upload.name)
            wanted.check(bucket.find(upload.name))
            with bucket.lock:
                _upload(call, bucket)
                del bucket.uploads[upload.id]
            blob = self._storage.blobs.join(upload.parts[number][1] for number in chosen)
            stored = bucket.put(upload.name, blob, upload.headers, wanted)
        return Answer(200, b"", {**written(stored), "opc-multipart-md5": stored.blob.md5})

    def abort(self, call: Call) -> Answer:
        bucket = self._storage.bucket(call, "OBJECT_DELETE")
        with bucket.lock:
            upload = _upload(call, bucket)
            del bucket.uploads[upload.id]
        for _, blob in upload.parts.values():
            blob.drop()
        return Answer(204)

    def list_uploads(self, call: Call) -> Answer:
        bucket = self._storage.bucket(call, "BUCKET_READ")
        with bucket.lock:
            return json_answer([self._described(bucket, upload) for upload in bucket.uploads.values()])

    def list_parts(self, call: Call) -> Answer:
        bucket = self._storage.bucket(call, "OBJECT_INSPECT")
        with bucket.lock:
            parts = sorted(_upload(call, bucket).parts.items())
        return json_answer(
            [{"partNumber": number, "etag": etag, "md5": blob.md5, "size": blob.size} for number, (etag, blob) in parts]
        )

    def _described(self, bucket: Bucket, upload: Upload) -> dict[str, Any]:
        return {
            "namespace": self._storage.namespace,
            "bucket": bucket.name,
            "object": upload.name,
            "uploadId": upload.id,
            "timeCreated": moment(upload.created),
            "storageTier": "Standard",
        }


def _headers(said: dict[str, Any]) -> dict[str, str]:
    """What the object is to say of itself. The names of its metadata come with their prefix or without."""
    plain = {NAMES[key]: str(value) for key, value in said.items() if key in NAMES and value}
    metadata = said.get("metadata") or {}
    return plain | {f"opc-meta-{key.lower().removeprefix('opc-meta-')}": str(value) for key, value in metadata.items()}


def _upload(call: Call, bucket: Bucket) -> Upload:
    found = bucket.uploads.get(call.query.get("uploadId", ""))
    if found is None or found.name != call.parts["name"]:
        raise Refusal(404, "NoSuchUpload", "There is no such upload: it was never begun, or has ended")
    return found


def _chosen(upload: Upload, said: dict[str, Any]) -> list[int]:
    """The numbers of the parts that make the object, in order."""
    wanted = {int(part["partNum"]): part["etag"] for part in said.get("partsToCommit") or ()}
    if not wanted:
        raise Refusal(400, "InvalidUploadPart", "no part is named")
    for number, etag in wanted.items():
        if number not in upload.parts or upload.parts[number][0] != etag:
            raise Refusal(400, "InvalidUploadPart", f"part {number} is not there with this etag")
    return sorted(wanted)
