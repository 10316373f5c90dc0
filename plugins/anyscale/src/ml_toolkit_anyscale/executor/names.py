"""The names of vLLM's parameters, and those that are not the caller's to set."""

from collections.abc import Mapping
from typing import Final

#: The vLLM whose names these are; a test compares them with the installed one.
VLLM_VERSION: Final = "0.32.0"

_SAMPLING_TEXT: Final = """
    allowed_token_ids bad_words detokenize extra_args flat_logprobs
    frequency_penalty ignore_eos include_stop_str_in_output logit_bias
    logprob_token_ids logprobs max_tokens min_p min_tokens n output_kind
    presence_penalty prompt_logprob_start prompt_logprob_token_ids prompt_logprobs
    repetition_detection repetition_penalty routed_experts_prompt_start seed
    skip_clone skip_reading_prefix_cache skip_special_tokens
    spaces_between_special_tokens stop stop_token_ids stream_interval
    structured_outputs temperature thinking_token_budget top_k top_p
    trace_decode_token_ids watermarking
"""

_ENGINE_TEXT: Final = """
    additional_config aggregate_engine_logging all2all_backend
    allow_deprecated_quantization allowed_local_media_path allowed_media_domains
    async_scheduling attention_backend attention_config aux_output_config block_size
    code_revision collect_detailed_traces compilation_config config_format convert
    cp_kv_cache_interleave_size cpu_distributed_timeout_seconds cpu_offload_gb
    cpu_offload_params cudagraph_capture_sizes cudagraph_metrics
    custom_histogram_buckets data_parallel_address data_parallel_backend
    data_parallel_external_lb data_parallel_hybrid_lb
    data_parallel_multi_port_external_lb data_parallel_rank data_parallel_rpc_port
    data_parallel_size data_parallel_size_local data_parallel_start_rank
    dbo_decode_token_threshold dbo_prefill_token_threshold dcp_comm_backend
    dcp_kv_cache_interleave_size dcp_q_replicate decode_context_parallel_size
    default_mm_loras device_ids diffusion_config disable_cascade_attn
    disable_chunked_mm_input disable_custom_all_reduce
    disable_hybrid_kv_cache_manager disable_log_stats
    disable_nccl_for_dp_synchronization disable_sliding_window
    distributed_executor_backend distributed_timeout_seconds download_dir
    dp_sync_interval dtype ec_manager_config ec_transfer_config
    elastic_ep_max_dp_size enable_batch_sharded_sampling enable_chunked_prefill
    enable_cumem_allocator enable_dbo enable_elastic_ep enable_ep_weight_filter
    enable_eplb enable_expert_parallel enable_fault_tolerance
    enable_flashinfer_autotune enable_hc_sp enable_layerwise_nvtx_tracing
    enable_logging_iteration_details enable_lora
    enable_mamba_cache_stochastic_rounding enable_mamba_shared_prefix_checkpoint
    enable_mfu_metrics enable_mixed_moe_lora_format enable_mm_embeds
    enable_mm_processor_stats enable_moe_shared_loras enable_nccl_comm_suspend
    enable_prefix_caching enable_prompt_embeds enable_return_routed_experts
    enable_shm_tensor_arena enable_sleep_mode enable_tower_connector_lora
    enable_trace_replay enforce_eager engram_config eplb_config
    expert_placement_strategy fail_on_environ_validation fault_tolerance_config
    fully_sharded_loras gdn_prefill_backend generation_config gpu_memory_utilization
    hf_config_path hf_overrides hf_token ignore_patterns interleave_mm_strings
    io_processor_plugin ir_op_priority jit_monitor_mode jit_monitor_verbose
    kda_decode_backend kda_prefill_backend kernel_config kv_cache_dtype
    kv_cache_dtype_skip_layers kv_cache_memory_bytes kv_cache_metrics
    kv_cache_metrics_sample kv_events_config kv_offloading_backend
    kv_offloading_size kv_sharing_fast_prefill kv_transfer_config
    language_model_only limit_mm_per_prompt linear_backend load_format
    log_config_file log_level logging_config logits_processors logprobs_mode
    long_prefill_token_threshold long_prefill_token_threshold_adaptive lora_dtype
    lora_target_modules mamba_backend mamba_block_size mamba_cache_dtype
    mamba_cache_mode mamba_cache_philox_rounds mamba_config mamba_ssm_cache_dtype
    mamba_ssu_algorithm master_addr master_port max_cpu_loras
    max_cudagraph_capture_size max_logprobs max_lora_cls_labels max_lora_rank
    max_loras max_model_len max_num_active_seqs max_num_batched_tokens
    max_num_queued_reqs max_num_queued_tokens max_num_scheduled_tokens max_num_seqs
    max_parallel_loading_workers media_io_kwargs mm_device_do_normalize
    mm_encoder_attn_backend mm_encoder_attn_dtype mm_encoder_fp8_scale_path
    mm_encoder_fp8_scale_save_margin mm_encoder_fp8_scale_save_path mm_encoder_only
    mm_encoder_tp_mode mm_hasher_algorithm mm_ipc_gpu_memory_gb
    mm_processor_cache_gb mm_processor_cache_type mm_processor_device
    mm_processor_kwargs mm_shm_cache_max_object_size_mb mm_tensor_ipc model
    model_class_overrides model_impl model_loader_extra_config model_weights
    moe_backend nnodes node_rank num_gpu_blocks_override numa_bind numa_bind_cpus
    numa_bind_nodes offload_backend offload_group_size offload_num_in_group
    offload_params offload_prefetch_step optimization_level otlp_traces_endpoint
    override_generation_config per_request_spec_decode_metrics performance_mode
    pipeline_parallel_size pooler_config prefill_context_parallel_size
    prefill_schedule_interval prefix_cache_retention_interval
    prefix_caching_hash_algo prefix_match_unit profiler_config pt_load_map_location
    quantization quantization_config ray_workers_use_nsight reasoning_config
    reasoning_parser reasoning_parser_plugin renderer_num_workers
    replayssm_buffer_len return_sampling_mask revision runner
    safetensors_load_strategy safetensors_prefetch_block_size
    safetensors_prefetch_num_threads scheduler_cls scheduler_reserve_full_isl
    scheduling_policy seed served_model_name show_hidden_metrics_for_version
    shutdown_timeout skip_mm_profiling skip_tokenizer_init
    sleep_mode_offload_cudagraph sleep_preserve_parameter_names
    sparse_indexer_topk_backend spec_method spec_model spec_tokens
    specialize_active_lora speculative_config stream_interval
    structured_outputs_config swa_bounded_replay tensor_parallel_size tokenizer
    tokenizer_mode tokenizer_revision tokens_only trust_remote_code ubatch_size
    use_fp64_gumbel use_replayssm use_tqdm_on_load video_pruning_method
    video_pruning_rate watermark watermark_config weight_transfer_config worker_cls
    worker_extension_cls
"""

#: Fields of ``vllm.SamplingParams``.
SAMPLING: Final = frozenset(_SAMPLING_TEXT.split())
#: Fields of ``vllm.EngineArgs``.
ENGINE: Final = frozenset(_ENGINE_TEXT.split())

_NO_COLUMN: Final = "the output has no column for what it asks for"
_TEXT: Final = "the answer is text, told whole when it is done"
_DEBUG: Final = "it is for debugging vLLM"

#: Sampling parameters that are refused, with the reason.
SAMPLING_REFUSED: Final[Mapping[str, str]] = {
    "detokenize": _TEXT,
    "flat_logprobs": _NO_COLUMN,
    "logprob_token_ids": _NO_COLUMN,
    "logprobs": _NO_COLUMN,
    "output_kind": _TEXT,
    "prompt_logprob_start": _NO_COLUMN,
    "prompt_logprob_token_ids": _NO_COLUMN,
    "prompt_logprobs": _NO_COLUMN,
    "routed_experts_prompt_start": _NO_COLUMN,
    "skip_clone": _DEBUG,
    "stream_interval": _TEXT,
    "trace_decode_token_ids": _DEBUG,
}

_PLAN: Final = "the plan sets it, from the machines and num_gpus"
_NODE: Final = "a replica is one engine on one node; the plan says how many there are"
_CODE: Final = "it names code to import, and nothing is executed that comes with a run"
_TASK: Final = "this run generates text"
_SERVER: Final = "it is for vLLM's server"

#: Engine arguments that are refused, with the reason.
ENGINE_REFUSED: Final[Mapping[str, str]] = {
    "convert": _TASK,
    "data_parallel_address": _NODE,
    "data_parallel_backend": _NODE,
    "data_parallel_external_lb": _NODE,
    "data_parallel_hybrid_lb": _NODE,
    "data_parallel_multi_port_external_lb": _NODE,
    "data_parallel_rank": _NODE,
    "data_parallel_rpc_port": _NODE,
    "data_parallel_size": _NODE,
    "data_parallel_size_local": _NODE,
    "data_parallel_start_rank": _NODE,
    "device_ids": _PLAN,
    "distributed_executor_backend": _PLAN,
    "enable_prompt_embeds": _TASK,
    "hf_token": "an order carries no secret; set HF_TOKEN where the job runs",
    "io_processor_plugin": _CODE,
    "logits_processors": _CODE,
    "master_addr": _NODE,
    "master_port": _NODE,
    "model": "it is the model= of the run",
    "model_class_overrides": _CODE,
    "nnodes": _NODE,
    "node_rank": _NODE,
    "pipeline_parallel_size": _PLAN,
    "pooler_config": _TASK,
    "reasoning_parser_plugin": _CODE,
    "runner": _TASK,
    "scheduler_cls": _CODE,
    "shutdown_timeout": _SERVER,
    "skip_tokenizer_init": "prompts and answers are text",
    "stream_interval": _TEXT,
    "tensor_parallel_size": _PLAN,
    "tokens_only": "prompts and answers are text",
    "worker_cls": _CODE,
    "worker_extension_cls": _CODE,
}
