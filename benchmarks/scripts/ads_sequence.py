"""The calls of `ads opctl run` for a cluster, one after the other: the job, a look at it and at its artifact, and for
each node its run and a look at that. Without ADS itself, whose import would cost as much again as all of them.

Arguments: how many nodes, and a JSON object with the OCIDs and the image.
"""

import json
import os
import sys
from typing import Any

import oci


def main(nodes: int, said: dict[str, Any]) -> None:
    config = oci.config.from_file(os.environ["OCI_CONFIG_FILE"])
    client = oci.data_science.DataScienceClient(config, service_endpoint=os.environ["OCI_ODSC_SERVICE_ENDPOINT"])
    where = {"projectId": said["project_id"], "compartmentId": said["compartment_id"]}
    job = client.create_job({**where, **_job(said)}).data
    client.get_job(job.id)
    try:
        client.head_job_artifact(job.id)
    except oci.exceptions.ServiceError as error:
        if error.status != 404:  # as a job of a container answers
            raise
    for rank in range(nodes):
        env = {"OCI__MODE": "WORKER" if rank else "MAIN", "RANK": str(rank)}
        details = {"jobType": "DEFAULT", "environmentVariables": env}
        run = {**where, "jobId": job.id, "displayName": f"node-{rank}", "jobConfigurationOverrideDetails": details}
        client.get_job_run(client.create_job_run(run).data.id)


def _job(said: dict[str, Any]) -> dict[str, Any]:
    environment = {
        "OCI__WORK_DIR": said["work_dir"],
        "OCI__CLUSTER_TYPE": "PYTORCH",
        "OCI__ENTRY_SCRIPT": "train.py",
        "OCI__RUNTIME_URI": "/code",
    }
    return {
        "displayName": "ads",
        "jobConfigurationDetails": {"jobType": "DEFAULT", "environmentVariables": environment},
        "jobInfrastructureConfigurationDetails": {
            "jobInfrastructureType": "STANDALONE",
            "shapeName": said["shape_name"],
            "blockStorageSizeInGBs": 50,
            "jobShapeConfigDetails": {"ocpus": 1, "memoryInGBs": 16},
            "subnetId": said["subnet_id"],
        },
        "jobEnvironmentConfigurationDetails": {"jobEnvironmentType": "OCIR_CONTAINER", "image": said["image"]},
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
