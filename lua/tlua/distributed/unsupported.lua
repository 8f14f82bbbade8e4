-- unsupported.lua - names of PyTorch's torch.distributed and torch.distributed.fsdp that tlua
-- lacks, with their replacements.

return {
   run = "it is a command here: `tlua run -n 4 script.lua`, which takes torchrun's options",
   launch = "it is a command here: `tlua run -n 4 script.lua`, which takes torchrun's options",
   elastic = "`tlua run --nnodes 1:4 --max-restarts 3 script.lua` does what it does",
   FullyShardedDataParallel = "torch.distributed.fsdp.fully_shard(model) shards it in place",
   rpc = "there are no remote calls; send and recv, broadcast_object_list and stores are there",
}
