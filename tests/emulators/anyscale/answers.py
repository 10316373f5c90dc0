"""The JSON that the SDK accepts as an answer: each field here is one it asks for."""

from datetime import UTC, datetime

WHEN = "2026-11-30T12:00:00+00:00"
PERSON = {
    "id": "usr_1",
    "name": "A Person",
    "username": "person",
    "email": "person@example.org",
}


class Refusal(Exception):
    """What the control plane does not do, as HTTP says it."""

    def __init__(self, status, detail):
        super().__init__(detail)
        self.status = status
        self.body = {"error": {"detail": detail}}


def now():
    return datetime.now(UTC).isoformat()


def user():
    organization = {
        "id": "org_1",
        "name": "Example",
        "public_identifier": "example",
        "is_general_platform_enabled": True,
        "is_private_endpoints_enabled": False,
        "is_usage_blocked": False,
    }
    return {
        **PERSON,
        "verified": True,
        "organization_permission_level": "owner",
        "organization_ids": ["org_1"],
        "organizations": [organization],
        "ld_hash": "",
        "ld_hash_fields": {},
        "pylon_hash": "",
    }


def cloud(cloud_id, name):
    return {
        "id": cloud_id,
        "name": name,
        "provider": "AWS",
        "region": "us-west-2",
        "credentials": "",
        "type": "Standard",
        "creator_id": PERSON["id"],
        "created_at": WHEN,
        "is_default": True,
        "customer_aggregated_logs_config_id": "",
    }


def project(project_id, name):
    return {
        "id": project_id,
        "name": name,
        "description": "",
        "cluster_config": "",
        "created_at": WHEN,
        "organization_id": "org_1",
        "is_default": True,
        "is_owner": True,
        "is_read_only": False,
        "directory_name": name,
    }


def template(name, version, machines, resources):
    head, workers = machines
    nodes = [
        {
            "name": f"worker-{n}",
            "instance_type": kind,
            "min_workers": n,
            "max_workers": n,
        }
        for kind, n in workers
    ]
    return {
        "id": f"cpt_{name}_{version}",
        "name": name,
        "creator_id": PERSON["id"],
        "organization_id": "org_1",
        "created_at": WHEN,
        "last_modified_at": WHEN,
        "version": version,
        "anonymous": False,
        "creator": PERSON,
        "config": {
            "cloud_id": "cld_1",
            "head_node_type": {
                "name": "head",
                "instance_type": head,
                "resources": resources,
            },
            "worker_node_types": nodes,
            "cloud": {"id": "cld_1", "name": "main", "provider": "AWS"},
        },
    }


def build(build_id):
    environment = {
        "id": "env_1",
        "name": "image",
        "organization_id": "org_1",
        "creator_id": PERSON["id"],
        "created_at": WHEN,
        "last_modified_at": WHEN,
    }
    return {
        "id": build_id,
        "application_template_id": "env_1",
        "application_template": environment,
        "cluster_environment_id": "env_1",
        "revision": 1,
        "creator_id": PERSON["id"],
        "creator": PERSON,
        "status": "succeeded",
        "created_at": WHEN,
        "last_modified_at": WHEN,
        "is_byod": True,
    }


def job(made):
    """Show a job, in the one form that serves create, get, list and terminate."""
    return {
        "id": made.id,
        "name": made.name,
        "created_at": made.created_at,
        "creator_id": PERSON["id"],
        "creator": PERSON,
        "config": made.config,
        "project_id": made.project_id,
        "project": {
            "id": made.project_id,
            "name": "default",
            "directory_name": "default",
        },
        "overview_url": "",
        "is_service": False,
        "cloud_id": "cld_1",
        "last_job_run_id": made.runs[-1].id if made.runs else None,
        "state": {
            "id": f"st_{made.id}",
            "state_transitioned_at": made.changed_at,
            "current_state": made.state,
            "error": made.error,
        },
    }


def run(made, one):
    return {
        "id": one.id,
        "name": one.id,
        "status": one.status,
        "created_at": one.created_at,
        "ha_job_id": made.id,
        "cluster_id": "ses_1",
    }


def chunk(url, size):
    return {
        "cluster_id": "ses_1",
        "chunk_name": "0",
        "chunk_url": url,
        "size": size,
        "file_name": "job-driver.log",
        "node_type": "head-node",
        "node_ip": "10.0.0.1",
        "instance_id": "i-1",
        "session_id": "ses_1",
    }


def tag(job_id, key, value):
    return {
        "id": f"tag_{job_id}_{key}",
        "organization_id": "org_1",
        "resource_type": "job",
        "resource_id": job_id,
        "key": key,
        "value": value,
        "created_at": WHEN,
        "updated_at": WHEN,
    }


def queue(made):
    return {
        "id": made.id,
        "name": made.name,
        "current_job_queue_state": "ACTIVE",
        "execution_mode": made.mode,
        "max_concurrency": made.slots,
        "idle_timeout_sec": made.idle_timeout_sec,
        "created_at": WHEN,
        "creator_id": PERSON["id"],
        "creator_email": PERSON["email"],
        "compute_config_id": made.compute_config_id,
        "project_id": "prj_1",
        "cloud_id": "cld_1",
    }
