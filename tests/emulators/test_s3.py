"""The emulated S3: what is put there is there, on record, until it ends."""

import json
import urllib.error
import urllib.request

import boto3
import pytest
from emulators.s3 import serve


def test_it_keeps_objects_and_writes_down_what_it_was_asked(tmp_path):
    record = tmp_path / "requests.jsonl"
    settings = {"MOTO_ENABLE_RECORDING": "1", "MOTO_RECORDER_FILEPATH": str(record)}
    with serve(**settings) as address:
        client = boto3.client(
            "s3",
            endpoint_url=address,
            region_name="us-east-1",
            aws_access_key_id="WHO",
            aws_secret_access_key="any",  # noqa: S106
        )
        client.create_bucket(Bucket="lake")
        client.put_object(Bucket="lake", Key="key", Body=b"content")

        assert client.get_object(Bucket="lake", Key="key")["Body"].read() == b"content"

    asked = [json.loads(line) for line in record.read_text().splitlines()]
    assert [entry["method"] for entry in asked] == ["PUT", "PUT", "GET"]
    assert all("=WHO/" in entry["headers"]["Authorization"] for entry in asked)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address)  # noqa: S310
