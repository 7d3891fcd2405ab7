


SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;


CREATE SCHEMA agentfense;


SET default_tablespace = '';

SET default_table_access_method = heap;


CREATE TABLE agentfense.applied_changes (
    id text NOT NULL COLLATE pg_catalog."C",
    approval_id text NOT NULL COLLATE pg_catalog."C",
    workspace_id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL COLLATE pg_catalog."C",
    host_id text NOT NULL COLLATE pg_catalog."C",
    owner text NOT NULL COLLATE pg_catalog."C",
    owner_type text NOT NULL COLLATE pg_catalog."C",
    actor text NOT NULL COLLATE pg_catalog."C",
    file_path bytea NOT NULL,
    relative_path bytea NOT NULL,
    project_root bytea NOT NULL,
    change_type text NOT NULL COLLATE pg_catalog."C",
    size_bytes bigint NOT NULL,
    mode bigint NOT NULL,
    content_hash text NOT NULL COLLATE pg_catalog."C",
    applied_ns bigint NOT NULL,
    undone_ns bigint NOT NULL,
    committed_ns bigint NOT NULL,
    commit_hash text NOT NULL COLLATE pg_catalog."C",
    commit_message text NOT NULL COLLATE pg_catalog."C"
);



CREATE TABLE agentfense.claims (
    owner_id text NOT NULL COLLATE pg_catalog."C",
    idempotency_key text NOT NULL COLLATE pg_catalog."C",
    method text NOT NULL COLLATE pg_catalog."C",
    hash bytea NOT NULL,
    host_id text NOT NULL COLLATE pg_catalog."C",
    resource_id text NOT NULL COLLATE pg_catalog."C",
    is_finished bigint NOT NULL,
    response bytea NOT NULL,
    created_ns bigint NOT NULL,
    expires_ns bigint NOT NULL
);



CREATE TABLE agentfense.codebases (
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    owner_id text NOT NULL COLLATE pg_catalog."C",
    host_id text NOT NULL COLLATE pg_catalog."C",
    size_bytes bigint NOT NULL,
    file_count bigint NOT NULL,
    version bigint NOT NULL,
    created_ns bigint NOT NULL,
    updated_ns bigint NOT NULL
);



CREATE TABLE agentfense.events (
    sequence bigint NOT NULL,
    time_ns bigint NOT NULL,
    type text NOT NULL COLLATE pg_catalog."C",
    sandbox_id text NOT NULL COLLATE pg_catalog."C",
    codebase_id text NOT NULL COLLATE pg_catalog."C",
    owner_id text NOT NULL COLLATE pg_catalog."C",
    host_id text NOT NULL COLLATE pg_catalog."C",
    payload text NOT NULL COLLATE pg_catalog."C"
);



ALTER TABLE agentfense.events ALTER COLUMN sequence ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME agentfense.events_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);



CREATE TABLE agentfense.meta (
    name text NOT NULL COLLATE pg_catalog."C",
    value text NOT NULL COLLATE pg_catalog."C"
);



CREATE TABLE agentfense.sandboxes (
    id text NOT NULL COLLATE pg_catalog."C",
    codebase_id text NOT NULL COLLATE pg_catalog."C",
    scope_path bytea NOT NULL,
    owner_id text NOT NULL COLLATE pg_catalog."C",
    host_id text NOT NULL COLLATE pg_catalog."C",
    status bigint NOT NULL,
    reason text NOT NULL COLLATE pg_catalog."C",
    rules bytea NOT NULL,
    labels text NOT NULL COLLATE pg_catalog."C",
    runtime bigint NOT NULL,
    image text NOT NULL COLLATE pg_catalog."C",
    memory_bytes bigint NOT NULL,
    cpu_quota bigint NOT NULL,
    cpu_shares bigint NOT NULL,
    pids_limit bigint NOT NULL,
    disk_bytes bigint NOT NULL,
    network text NOT NULL COLLATE pg_catalog."C",
    sync_on_completion bigint NOT NULL,
    extra bytea NOT NULL,
    created_ns bigint NOT NULL,
    started_ns bigint NOT NULL,
    stopped_ns bigint NOT NULL,
    expires_ns bigint NOT NULL,
    row_version bigint NOT NULL
);



CREATE TABLE agentfense.schema_version (
    version bigint NOT NULL
);



CREATE TABLE agentfense.sessions (
    id text NOT NULL COLLATE pg_catalog."C",
    sandbox_id text NOT NULL COLLATE pg_catalog."C",
    host_id text NOT NULL COLLATE pg_catalog."C",
    shell text NOT NULL COLLATE pg_catalog."C",
    status bigint NOT NULL,
    created_ns bigint NOT NULL,
    closed_ns bigint NOT NULL
);



CREATE TABLE agentfense.tokens (
    id text NOT NULL COLLATE pg_catalog."C",
    hash bytea NOT NULL,
    owner_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    created_ns bigint NOT NULL,
    expires_ns bigint NOT NULL,
    revoked_ns bigint NOT NULL,
    last_used_ns bigint NOT NULL,
    allowed_roots bytea NOT NULL,
    is_admin bigint NOT NULL
);



CREATE TABLE agentfense.workspaces (
    id text NOT NULL COLLATE pg_catalog."C",
    account_id text NOT NULL COLLATE pg_catalog."C",
    host_id text NOT NULL COLLATE pg_catalog."C",
    scope_path bytea NOT NULL,
    project_root bytea NOT NULL,
    reserved_paths bytea NOT NULL,
    no_lock bigint NOT NULL,
    owner text NOT NULL COLLATE pg_catalog."C",
    owner_type text NOT NULL COLLATE pg_catalog."C",
    status bigint NOT NULL,
    reason text NOT NULL COLLATE pg_catalog."C",
    driver text NOT NULL COLLATE pg_catalog."C",
    preset text NOT NULL COLLATE pg_catalog."C",
    rules bytea NOT NULL,
    tags text NOT NULL COLLATE pg_catalog."C",
    metadata text NOT NULL COLLATE pg_catalog."C",
    behavior text NOT NULL COLLATE pg_catalog."C",
    idempotency_key text NOT NULL COLLATE pg_catalog."C",
    request_hash bytea NOT NULL,
    base_commit text NOT NULL COLLATE pg_catalog."C",
    size_bytes bigint NOT NULL,
    file_count bigint NOT NULL,
    created_ns bigint NOT NULL,
    used_ns bigint NOT NULL,
    updated_ns bigint NOT NULL,
    stopped_ns bigint NOT NULL,
    approved_ns bigint NOT NULL,
    closed_ns bigint NOT NULL,
    deleted_ns bigint NOT NULL,
    extra bytea NOT NULL,
    row_version bigint NOT NULL
);



ALTER TABLE ONLY agentfense.applied_changes
    ADD CONSTRAINT applied_changes_pkey PRIMARY KEY (id);



ALTER TABLE ONLY agentfense.claims
    ADD CONSTRAINT claims_pkey PRIMARY KEY (owner_id, idempotency_key);



ALTER TABLE ONLY agentfense.codebases
    ADD CONSTRAINT codebases_pkey PRIMARY KEY (id);



ALTER TABLE ONLY agentfense.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (sequence);



ALTER TABLE ONLY agentfense.meta
    ADD CONSTRAINT meta_pkey PRIMARY KEY (name);



ALTER TABLE ONLY agentfense.sandboxes
    ADD CONSTRAINT sandboxes_pkey PRIMARY KEY (id);



ALTER TABLE ONLY agentfense.schema_version
    ADD CONSTRAINT schema_version_pkey PRIMARY KEY (version);



ALTER TABLE ONLY agentfense.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);



ALTER TABLE ONLY agentfense.tokens
    ADD CONSTRAINT tokens_hash_key UNIQUE (hash);



ALTER TABLE ONLY agentfense.tokens
    ADD CONSTRAINT tokens_pkey PRIMARY KEY (id);



ALTER TABLE ONLY agentfense.workspaces
    ADD CONSTRAINT workspaces_pkey PRIMARY KEY (id);



CREATE INDEX applied_changes_by_path ON agentfense.applied_changes USING btree (file_path, applied_ns);



CREATE INDEX applied_changes_by_workspace ON agentfense.applied_changes USING btree (workspace_id, applied_ns);



CREATE INDEX applied_changes_open ON agentfense.applied_changes USING btree (project_root, committed_ns, applied_ns);



CREATE INDEX claims_by_end ON agentfense.claims USING btree (expires_ns);



CREATE UNIQUE INDEX codebases_by_owner ON agentfense.codebases USING btree (owner_id, created_ns, id);



CREATE UNIQUE INDEX codebases_by_time ON agentfense.codebases USING btree (created_ns, id);



CREATE INDEX events_by_owner ON agentfense.events USING btree (owner_id, sequence);



CREATE INDEX events_by_sandbox ON agentfense.events USING btree (sandbox_id, sequence);



CREATE UNIQUE INDEX sandboxes_by_codebase ON agentfense.sandboxes USING btree (codebase_id, created_ns, id);



CREATE UNIQUE INDEX sandboxes_by_owner ON agentfense.sandboxes USING btree (owner_id, created_ns, id);



CREATE UNIQUE INDEX sandboxes_by_time ON agentfense.sandboxes USING btree (created_ns, id);



CREATE UNIQUE INDEX sessions_by_sandbox ON agentfense.sessions USING btree (sandbox_id, created_ns, id);



CREATE UNIQUE INDEX tokens_by_owner ON agentfense.tokens USING btree (owner_id, created_ns, id);



CREATE UNIQUE INDEX workspaces_by_key ON agentfense.workspaces USING btree (account_id, idempotency_key) WHERE (idempotency_key <> ''::text);



CREATE INDEX workspaces_by_status ON agentfense.workspaces USING btree (host_id, status);



CREATE UNIQUE INDEX workspaces_by_time ON agentfense.workspaces USING btree (created_ns, id);



ALTER TABLE ONLY agentfense.sessions
    ADD CONSTRAINT sessions_sandbox_id_fkey FOREIGN KEY (sandbox_id) REFERENCES agentfense.sandboxes(id) ON DELETE CASCADE;




