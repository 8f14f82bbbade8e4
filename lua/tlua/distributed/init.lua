-- init.lua - torch.distributed: processes that work together on one program. Stores and groups,
-- which are in C, are loaded already; the Lua modules are loaded when they are first used.

local lazy = require "tlua.lazy"

-- Maps each Lua file to the functions and classes that it defines.
return lazy.modules("tlua.distributed", {
   group = [[init_process_group is_initialized is_available destroy_process_group get_rank
      get_world_size get_node_local_rank get_backend get_process_group_ranks get_group_rank
      get_global_rank get_pg_count get_debug_level default_pg_timeout new_group new_subgroups
      new_subgroups_by_enumeration split_group set_timeout is_backend_available
      is_gloo_available is_mpi_available is_nccl_available is_torchelastic_launched barrier
      monitored_barrier group GroupMember]],
   store = "TCPStore FileStore HashStore PrefixStore Store",
   collectives = [[ReduceOp broadcast all_reduce reduce all_gather all_gather_into_tensor gather
      scatter reduce_scatter reduce_scatter_tensor all_to_all all_to_all_single
      all_reduce_coalesced all_gather_coalesced all_gather_single reduce_scatter_single
      gather_single]],
   messages = "send recv isend irecv P2POp batch_isend_irecv",
   objects = [[broadcast_object_list all_gather_object gather_object scatter_object_list
      send_object_list recv_object_list]],
   nn = "nn",
   algorithms = "algorithms",
   device_mesh = "init_device_mesh DeviceMesh device_mesh",
   fsdp = "fsdp",
   optim = "optim",
   tensor = "tensor",
   pipelining = "pipelining",
   checkpoint = "checkpoint",
   plan = "plan plan_layout",
})
