"""Oracle's object storage: buckets, objects, lists. Uploads in parts are in `object_uploads.py`.

`allowed(principal, permission, bucket, name)` may be given to decide who may do what, in the words of Oracle's
policies (`OBJECT_READ`, `OBJECT_CREATE`, `OBJECT_OVERWRITE`, …). As with the real service, who may not is told that
there is no such bucket.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .blobs import Blob, Blobs
from .buckets import Bucket, Condition, moment
from .collisions import Collisions
from .identity import Principal
from .messages import Answer
from .object_uploads import ObjectUploads
from .object_words import (
    BUCKET,
    asked_list,
    asked_range,
    checked_name,
    concurrent,
    condition,
    described,
    kept_headers,
    no_bucket,
    not_wanted,
    row,
    written,
)
from .routing import Call, Refusal, Route, json_answer

Allowed = Callable[[Principal, str, str, str], bool]


class ObjectStorage:
    """The service of one tenancy, which has one namespace. Large objects lie in `folder`."""

    def __init__(
        self, folder: Path, namespace: str = "rehearsal", allowed: Allowed | None = None, conflicts: bool = False
    ) -> None:
        self.namespace = namespace
        self.allowed: Allowed = allowed or (lambda principal, permission, bucket, name: True)
        self.blobs = Blobs(folder)
        self.collisions = Collisions(conflicts)
        self._buckets: dict[str, Bucket] = {}
        self._lock = threading.Lock()

    def routes(self) -> list[Route]:
        objects = f"{BUCKET}/o/{{name...}}"
        return [
            Route("PUT", objects, self.put_object, "put", body_is_signed=False),
            Route("GET", objects, self.get_object, "get"),
            Route("HEAD", objects, self.head_object, "head"),
            Route("DELETE", objects, self.delete_object, "delete"),
            Route("GET", f"{BUCKET}/o", self.list_objects, "list"),
            *ObjectUploads(self).routes(),
            Route("POST", f"{BUCKET}/actions/batchDeleteObjects", self.delete_objects, "delete"),
            Route("GET", "/n", self.get_namespace),
            Route("GET", "/n/{namespace}/b", self.list_buckets),
            Route("POST", "/n/{namespace}/b", self.create_bucket),
            Route("GET", BUCKET, self.get_bucket),
            Route("HEAD", BUCKET, self.get_bucket),
            Route("DELETE", BUCKET, self.delete_bucket),
        ]

    # Buckets

    def make_bucket(self, name: str, details: dict[str, Any] | None = None) -> Bucket:
        """A new bucket."""
        with self._lock:
            if name in self._buckets:
                raise Refusal(409, "BucketAlreadyExists", f"The bucket '{name}' exists already")
            self._buckets[name] = bucket = Bucket(name, details or {})
            return bucket

    def compartment_of(self, name: str) -> str:
        """Where a bucket lies; empty where there is none, or nobody said."""
        found = self._buckets.get(name)
        return str(found.details.get("compartmentId", "")) if found else ""

    def bucket(self, call: Call, permission: str) -> Bucket:
        """The bucket of a call, to a caller who may do this with the object that the call names."""
        name, namespace = call.parts["bucket"], call.parts["namespace"]
        found = self._buckets.get(name) if namespace == self.namespace else None
        if found is None or not self.allowed(call.principal, permission, name, call.parts.get("name", "")):
            raise no_bucket(name, namespace)
        return found

    def get_namespace(self, call: Call) -> Answer:
        return json_answer(self.namespace)

    def list_buckets(self, call: Call) -> Answer:
        self._check_namespace(call, "BUCKET_INSPECT")
        with self._lock:
            return json_answer([self._described(bucket) for _, bucket in sorted(self._buckets.items())])

    def create_bucket(self, call: Call) -> Answer:
        self._check_namespace(call, "BUCKET_CREATE")
        said = call.said()
        bucket = self.make_bucket(str(said["name"]), said)
        return json_answer(self._described(bucket), headers={"etag": bucket.etag})

    def get_bucket(self, call: Call) -> Answer:
        bucket = self.bucket(call, "BUCKET_READ" if call.request.method == "GET" else "BUCKET_INSPECT")
        return json_answer(self._described(bucket), headers={"etag": bucket.etag})

    def delete_bucket(self, call: Call) -> Answer:
        bucket = self.bucket(call, "BUCKET_DELETE")
        with self._lock, bucket.lock:
            if len(bucket) or bucket.uploads:
                raise Refusal(409, "BucketNotEmpty", f"The bucket '{bucket.name}' is not empty")
            self._buckets.pop(bucket.name, None)
        return Answer(204)

    def _check_namespace(self, call: Call, permission: str) -> None:
        namespace = call.parts["namespace"]
        if namespace != self.namespace or not self.allowed(call.principal, permission, "", ""):
            raise Refusal(404, "NamespaceNotFound", f"There is no namespace {namespace} for you")

    def _described(self, bucket: Bucket) -> dict[str, Any]:
        details = bucket.details
        return {
            "namespace": self.namespace,
            "name": bucket.name,
            "compartmentId": details.get("compartmentId", ""),
            "metadata": details.get("metadata") or {},
            "kmsKeyId": details.get("kmsKeyId"),
            "createdBy": "rehearsal",
            "timeCreated": moment(bucket.created),
            "etag": bucket.etag,
            "storageTier": "Standard",
            "publicAccessType": "NoPublicAccess",
            "freeformTags": details.get("freeformTags") or {},
        }

    # Objects

    def put_object(self, call: Call) -> Answer:
        bucket = self.bucket(call, "OBJECT_CREATE")
        name = checked_name(call.parts["name"])
        wanted = condition(call)
        with self.collisions.writing((bucket.name, name), wanted != Condition()) as free:
            if not free:
                raise concurrent(name)
            self.check_overwrite(call, bucket, name)
            wanted.check(bucket.find(name))
            stored = bucket.put(name, self.take(call), kept_headers(call, bucket), wanted)
        return Answer(200, b"", {**written(stored), "opc-content-md5": stored.blob.md5})

    def take(self, call: Call) -> Blob:
        """The body of a call as a blob, if it is the one whose digest was said."""
        blob = self.blobs.take(call.request.body)
        said = call.header("content-md5")
        if said is not None and said != blob.md5:
            blob.drop()
            raise Refusal(
                400, "UnmatchedContentMD5", f"The body's MD5 is {blob.md5} and not that of Content-MD5, {said}"
            )
        return blob

    def check_overwrite(self, call: Call, bucket: Bucket, name: str) -> None:
        if bucket.find(name) and not self.allowed(call.principal, "OBJECT_OVERWRITE", bucket.name, name):
            raise no_bucket(bucket.name, self.namespace)

    def get_object(self, call: Call) -> Answer:
        stored, body = self.bucket(call, "OBJECT_READ").read(call.parts["name"])
        if stopped := not_wanted(call, stored):
            return stopped
        stretch = asked_range(call.header("range"), len(body))
        if stretch is None:
            return Answer(200, body, described(stored))
        start, stop = stretch
        headers = {**described(stored), "content-range": f"bytes {start}-{stop - 1}/{len(body)}"}
        headers.pop("content-md5", None)
        return Answer(206, body[start:stop], headers)

    def head_object(self, call: Call) -> Answer:
        stored = self.bucket(call, "OBJECT_INSPECT").get(call.parts["name"])
        stopped = not_wanted(call, stored)
        return stopped or Answer(200, b"", {**described(stored), "content-length": str(stored.blob.size)})

    def delete_object(self, call: Call) -> Answer:
        gone = self.bucket(call, "OBJECT_DELETE").delete(call.parts["name"], condition(call))
        return Answer(204, b"", {"last-modified": gone.last_modified})

    def delete_objects(self, call: Call) -> Answer:
        """Many in one request; each has its own success."""
        bucket = self.bucket(call, "OBJECT_DELETE")
        said = call.said()
        if len(said["objects"]) > 1000:
            raise Refusal(400, "InvalidParameter", "at most 1000 objects can be deleted at once")
        deleted, failed = [], []
        for each in said["objects"]:
            try:
                gone = bucket.delete(each["objectName"], Condition(if_match=each.get("ifMatch")))
                deleted.append({"objectName": each["objectName"], "timeLastModified": moment(gone.modified)})
            except Refusal as refusal:
                told = {"statusCode": str(refusal.status), "errorMessage": refusal.message}
                failed.append({"objectName": each["objectName"], **told})
        return json_answer({"deleted": [] if said.get("isSkipDeletedResult") else deleted, "failed": failed})

    def list_objects(self, call: Call) -> Answer:
        bucket = self.bucket(call, "OBJECT_INSPECT")
        fields = {name for name in call.query.get("fields", "name").split(",") if name}
        found, objects = bucket.page(asked_list(call.query))
        rows = [row(name, objects[name], fields) for name in found.names]
        said: dict[str, Any] = {"objects": rows, "nextStartWith": found.next_start}
        if call.query.get("delimiter"):
            said["prefixes"] = found.prefixes
        return json_answer(said)
