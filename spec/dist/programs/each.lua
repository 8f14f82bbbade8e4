-- each.lua - runs several programs, one after the other, in the same MPI process of each rank. The global variable
-- COUNT, which ranks.lua sets, is the number of programs.

for i = 1, COUNT do
   dofile "head.lua"
   dist.init_process_group {backend = BACKEND, timeout = 120}
   rank, size = dist.get_rank(), dist.get_world_size()
   local ok, message = xpcall(dofile, debug.traceback, i .. ".lua")
   print(("%d %s on rank %d %s"):format(i, ok and "passed" or "failed", rank, ok and "" or message))
   if not ok then os.exit(1) end
   if dist.is_initialized() then
      dist.barrier()
      dist.destroy_process_group()
   end
end
