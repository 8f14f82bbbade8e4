-- Tests the back end "record", in which one process acts as all ranks of a large world and counts the messages. The
-- expected counts were computed by hand from the formulas of ring algorithms.

local torch = require "tlua"
local dist = torch.distributed

local function as(rank, size, fn)
   dist.init_process_group {backend = "record", rank = rank, world_size = size}
   local ok, message = xpcall(fn, debug.traceback)
   local traffic = dist.group.WORLD:traffic()
   dist.destroy_process_group()
   if not ok then error(message, 0) end
   return traffic
end

describe("groups that record", function()
   it("count messages and bytes of every kind of call", function()
      local traffic = as(1, 4, function()
         assert.equal("record", dist.get_backend())
         local t = torch.ones(1000)
         dist.all_reduce(t)
         dist.broadcast(t, 0)
         dist.broadcast(t, 2) -- in the chain that begins at rank 2, rank 1 is the last rank
         local all = torch.empty(4000)
         dist.all_gather_into_tensor(all, t)
         dist.reduce_scatter_tensor(torch.empty(1000), all)
         dist.all_to_all_single(torch.empty(4000), all)
         dist.send(t, 2)
         dist.recv(t, 0)
         assert.equal(0, t:sum():item())
         dist.barrier()
      end)
      assert.same({
         all_reduce = {calls = 1, bytes = 4000, messages = 6, sent = 2 * 3 * 1000},
         broadcast = {calls = 2, bytes = 8000, messages = 1, sent = 4000},
         all_gather = {calls = 1, bytes = 16000, messages = 3, sent = 12000},
         reduce_scatter = {calls = 1, bytes = 16000, messages = 3, sent = 12000},
         all_to_all = {calls = 1, bytes = 16000, messages = 3, sent = 12000},
         send = {calls = 1, bytes = 4000, messages = 1, sent = 4000},
         recv = {calls = 1, bytes = 4000, messages = 0, sent = 0},
         barrier = {calls = 1, bytes = 0, messages = 6, sent = 0},
      }, traffic)
   end)

   it("send the bytes of the formula, also for sizes that the number of ranks does not divide", function()
      local sent = 0
      for rank = 0, 6 do
         sent = sent + as(rank, 7, function() dist.all_reduce(torch.ones(1001)) end).all_reduce.sent
      end
      assert.equal(2 * 6 * 4004, sent)
   end)

   it("run DistributedDataParallel's step on thousands of ranks", function()
      local bytes
      local function step()
         torch.manual_seed(1)
         local net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64))
         local model = torch.nn.parallel.DistributedDataParallel(net, {init_sync = false})
         model(torch.ones(1, 64)):sum():backward()
         bytes = 4 * (64 * 128 + 128 + 128 * 64 + 64)
      end
      for _, rank in ipairs {0, 1, 1023, 4095} do
         local t = as(rank, 4096, step).all_reduce
         assert.equal(1, t.calls) -- one bucket holds all gradients, so there is one call
         assert.equal(bytes, t.bytes)
         assert.equal(2 * 4095, t.messages)
      end
   end)

   -- Section 7.2 of the ZeRO paper gives these formulas. Stage 3 gathers a unit's parameters before the forward pass
   -- and before the backward pass, and reduces and scatters its gradients once. Each of these collectives moves (N - 1)
   -- / N of the unit's bytes.
   it("run fully_shard's step with the messages and bytes of the formulas", function()
      local units <const>, width <const> = 3, 64
      local count <const> = width * width + width -- number of parameters in a unit
      for _, size in ipairs {2, 64, 1024} do
         for _, rank in ipairs {0, size // 2, size - 1} do
            local before
            local t = as(rank, size, function()
               local net = torch.nn.Sequential()
               for _ = 1, units do net:append(torch.nn.Linear(width, width)) end
               for i = 1, units do dist.fsdp.fully_shard(net[i]) end
               dist.fsdp.fully_shard(net)
               -- DDP's constructor compares the model across ranks; the messages for that are not counted
               before = dist.group.WORLD:traffic()
               net(torch.ones(1, width)):sum():backward()
            end)
            -- the size of a unit in bytes, after its number of parameters is padded to a multiple of the number of
            -- ranks
            local unit = (count + size - 1) // size * size * 4
            for name, n in pairs(t.all_gather) do t.all_gather[name] = n - before.all_gather[name] end
            assert.same({calls = 2 * units, bytes = 2 * units * unit, messages = 2 * units * (size - 1),
               sent = 2 * units * (size - 1) * unit // size}, t.all_gather)
            assert.same({calls = units, bytes = units * unit, messages = units * (size - 1),
               sent = units * (size - 1) * unit // size}, t.reduce_scatter)
         end
      end
   end)

   -- Each micro-batch crosses each border between stages twice: once as activations, once as gradients.
   it("run a pipeline's step with the messages and bytes of the formulas", function()
      local nn, pipe = torch.nn, dist.pipelining
      local parts <const>, width <const> = 4, 6
      for _, size in ipairs {2, 16, 1024} do
         for _, rank in ipairs {0, size // 2, size - 1} do
            for _, kind in ipairs {"ScheduleGPipe", "Schedule1F1B"} do
               local first, last = rank == 0, rank == size - 1
               local t = as(rank, size, function()
                  local stage = pipe.PipelineStage(nn.Linear(width, width), rank, size,
                     {input_args = torch.empty(2, width)})
                  local schedule = pipe[kind](stage, parts, {loss_fn = nn.functional.mse_loss})
                  local options = {target = last and torch.ones(2 * parts, width) or nil}
                  if first then
                     schedule:step(torch.ones(2 * parts, width), options)
                  else
                     schedule:step(options)
                  end
               end)
               local borders = (first and 0 or 1) + (last and 0 or 1)
               local bytes = parts * borders * 2 * width * 4
               assert.same({calls = parts * borders, bytes = bytes, messages = parts * borders, sent = bytes}, t.send)
               assert.same({calls = parts * borders, bytes = bytes, messages = 0, sent = 0}, t.recv)
            end
         end
      end
   end)

   it("refuse impossible calls", function()
      local function init(options)
         options.backend = "record"
         return function() dist.init_process_group(options) end
      end
      assert.raises("rank and world_size are missing", init {})
      assert.raises("world_size: expected 1 to 4096 ranks, got 5000", init {rank = 0, world_size = 5000})
   end)
end)
