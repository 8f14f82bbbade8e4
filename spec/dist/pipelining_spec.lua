-- Tests pipelines. One process runs the same layers, and gives the reference values.

local torch = require "tlua"
local ranks = require "spec.dist.ranks"
local sorted = require "spec.support.sorted"

local run <const>, case <const> = ranks:run_after "pipelining"

describe("a pipeline", function()
   for _, kind in ipairs {"ScheduleGPipe", "Schedule1F1B"} do
      it("gives the losses and gradients of one process: " .. kind, case({2, 4}, [==[
         local model = build(size)
         local stage = pipe.PipelineStage(model[rank + 1], rank, size)
         for _, parts in ipairs {1, 4, 8} do
            model = build(size)
            stage = pipe.PipelineStage(model[rank + 1], rank, size, "cpu")
            train(model, {stage}, pipe.]==] .. kind .. [==[(stage, parts,
               {loss_fn = F.mse_loss}), 3)
         end
      ]==]))
   end

   it("has several stages on a rank: ScheduleInterleaved1F1B", case(2, [==[
      for _, parts in ipairs {1, 2, 4, 8} do
         local model, stages = build(6), {}
         for i = 1, 3 do
            local s = rank + (i - 1) * size
            stages[i] = pipe.PipelineStage(model[s + 1], s, 6)
         end
         train(model, stages, pipe.ScheduleInterleaved1F1B(stages, parts,
            {loss_fn = F.mse_loss}), 2)
      end
   ]==]))

   it("computes gradients of parameters later: ScheduleInterleavedZeroBubble", function()
      for _, row in ipairs {{2, 1}, {4, 1}, {2, 2}} do
         run(row[1], ("local here = %d "):format(row[2]) .. [==[
            for _, parts in ipairs {1, 2, 8} do
               local model, stages = build(here * size), {}
               for i = 1, here do
                  local s = rank + (i - 1) * size
                  stages[i] = pipe.PipelineStage(model[s + 1], s, here * size)
               end
               train(model, stages, pipe.ScheduleInterleavedZeroBubble(stages, parts,
                  {loss_fn = F.mse_loss}), 2)
            end
            local ddp = nn.parallel.DistributedDataParallel(nn.Linear(6, 6))
            refused("DistributedDataParallel and fully_shard cannot wait for",
               pipe.ScheduleInterleavedZeroBubble, {pipe.PipelineStage(ddp, rank, size)}, 2)
         ]==])
      end
   end)

   it("runs its stages in a V or in loops: ScheduleZBVZeroBubble, ScheduleDualPipeV, ScheduleLoopedBFS", function()
      for _, n in ipairs {1, 2, 4} do
         run(n, [==[
            local function stages_of(model, second)
               return {pipe.PipelineStage(model[rank + 1], rank, 2 * size),
                  pipe.PipelineStage(model[second + 1], second, 2 * size)}
            end
            for _, parts in ipairs {1, 2, 4, 8} do
               for _, name in ipairs {"ScheduleZBVZeroBubble", "ScheduleDualPipeV", "ScheduleLoopedBFS"} do
                  local model = build(2 * size)
                  local stages = stages_of(model, name == "ScheduleLoopedBFS" and rank + size
                     or 2 * size - 1 - rank)
                  if name == "ScheduleDualPipeV" and parts < 2 * size then
                     refused(("n_microbatches: expected at least the %d stages, got %d"):format(2 * size,
                        parts), pipe[name], stages, parts)
                  else
                     train(model, stages, pipe[name](stages, parts, {loss_fn = F.mse_loss}), 2)
                  end
               end
            end
            local model = build(3 * size)
            local one = {pipe.PipelineStage(model[rank + 1], rank, size)}
            refused("ScheduleZBVZeroBubble: stages: expected 2 on each rank, got 1", pipe.ScheduleZBVZeroBubble,
               one, 4)
            if size > 1 then
               refused(("expected stage %d as number 2, got stage %d"):format(2 * size - 1 - rank,
                  rank + size), pipe.ScheduleZBVZeroBubble, stages_of(model, rank + size), 4)
               refused(("expected stage %d as number 2, got stage %d"):format(rank + size,
                  2 * size - 1 - rank), pipe.ScheduleLoopedBFS, stages_of(model, 2 * size - 1 - rank), 4)
            end
         ]==])
      end
   end)

   it("exchanges no shapes if all stages know theirs", case(2, [==[
      local stage = pipe.PipelineStage(build(size)[rank + 1], rank, size, {input_args = torch.empty(2, 6)})
      train(build(size), {stage}, pipe.Schedule1F1B(stage, 4, {loss_fn = F.mse_loss}), 2)
      refused("PipelineStage: input_args: expected a tensor or a list of them, got ", pipe.PipelineStage,
         nn.Linear(6, 6), rank, size, {input_args = {3}})
   ]==]))

   it("refuses input_args for only some of the stages", case(2, [==[
      local some = rank == 0 and torch.empty(2, 6) or nil
      local stage = pipe.PipelineStage(build(2)[rank + 1], rank, 2, {input_args = some})
      local with, without = "stages with input_args", "stages without input_args"
      refused(("argument 5 is %s here, but %s on rank %d"):format(some and with or without,
         some and without or with, 1 - rank), pipe.Schedule1F1B, stage, 4)
      local stages = {pipe.PipelineStage(build(4)[rank + 1], rank, 4),
         pipe.PipelineStage(build(4)[rank + 3], rank + 2, 4, {input_args = torch.empty(2, 6)})}
      refused(("of stages %d and %d, only one has them"):format(rank, rank + 2), pipe.ScheduleInterleaved1F1B,
         stages, 4)
   ]==]))

   it("passes several tensors between stages, also of integers", case(2, [==[
      local Two = torch.class("Two", nn.Module)
      function Two:__init() nn.Module.__init(self) self.a = nn.Linear(6, 6) end
      function Two:forward(t, n) return self.a(t), n or torch.ones(#t, {dtype = "int64"}) * 2 end
      local Join = torch.class("Join", nn.Module)
      function Join:__init() nn.Module.__init(self) self.b = nn.Linear(6, 6) end
      function Join:forward(t, n) return self.b(t) * n:unsqueeze(2) end
      torch.manual_seed(1)
      local two, join = Two(), Join()
      local stage = pipe.PipelineStage(rank == 0 and two or join, rank, 2)
      local schedule = pipe.Schedule1F1B(stage, 4, {loss_fn = F.mse_loss})
      if rank == 0 then schedule:step(x) else schedule:step {target = y} end
      torch.manual_seed(1)
      local a, b = Two(), Join()
      F.mse_loss(b(a(x)), y):backward()
      near(stage.submodule:parameters()[1].grad, (rank == 0 and a or b):parameters()[1].grad)
   ]==]))

   it("works with DistributedDataParallel and fully_shard", case(4, [==[
      local mesh = dist.init_device_mesh("cpu", {2, 2}, {mesh_dim_names = {"pp", "dp"}})
      local at, part = mesh.pp:get_local_rank(), mesh.dp:get_local_rank()
      local function mine(t) return t:narrow(1, part * 4 + 1, 4) end
      for _, kind in ipairs {"ddp", "fsdp"} do
         local model = build(2)[at + 1]
         if kind == "fsdp" then
            dist.fsdp.fully_shard(model, {mesh = mesh.dp})
         else
            model = nn.parallel.DistributedDataParallel(model,
               {process_group = mesh.dp:get_group()})
         end
         local stage = pipe.PipelineStage(model, at, 2, {group = mesh.pp:get_group()})
         local schedule = pipe.Schedule1F1B(stage, 2, {loss_fn = F.mse_loss})
         for _ = 1, 2 do
            if at == 0 then schedule:step(mine(x)) else schedule:step {target = mine(y)} end
         end
         local alone = build(2)
         ;(F.mse_loss(alone(x), y) * 2):backward()
         for i, p in ipairs(model:parameters()) do
            near(dist.fsdp.full_tensor(p, p.grad), alone[at + 1]:parameters()[i].grad)
         end
      end
   ]==]))

   it("refuses arguments that do not fit, on every rank", case(2, [==[
      local model = build(2)
      local Stage = pipe.PipelineStage
      refused(("stage %d is on rank %d of the group, this is rank %d"):format(1 - rank, 1 - rank,
         rank), Stage, model, 1 - rank, 2)
      refused("num_stages: expected a multiple of the group's 2 ranks, got 3", Stage, model,
         rank, 3)
      refused("stage_index: expected 0 to 1, got 5", Stage, model, 5, 2)
      local stage = Stage(model[rank + 1], rank, 2)
      refused("n_microbatches: expected 1 to 4095, got 0", pipe.ScheduleGPipe, stage, 0)
      refused("stage: expected a PipelineStage, got 1", pipe.ScheduleGPipe, 1, 2)
      refused(("expected stage %d as number 2, got stage %d"):format(rank + 2, rank),
         pipe.ScheduleInterleaved1F1B, {stage, stage}, 2)
      local four = Stage(model[rank + 1], rank, 4)
      refused("4 stages on 2 ranks are 2 for each, got 1", pipe.ScheduleGPipe, four, 2)
      refused(("argument 2 is %d parts here, but %d parts on rank %d"):format(rank + 1, 2 - rank,
         1 - rank), pipe.ScheduleGPipe, stage, rank + 1)
   ]==]))

   it("fails on every rank if one rank fails", function()
      for _, n in ipairs {2, 3} do
         run(n, [==[
            -- Runs a batch in a new process group. The batch must fail because rank `at` makes the error `what`.
            -- Afterwards, the group must refuse all calls.
            local function fails(text, at, what)
               local group = dist.new_group()
               local Worse = torch.class("Worse", nn.Module)
               local part = 0
               function Worse:forward(t)
                  part = part + 1
                  if what == "forward" and part == 2 then error("on purpose", 0) end
                  if what == "text" then return "text" end
                  t = t * nn.Parameter(torch.ones(6))
                  if what == "backward" then
                     t:register_hook(function() error("on purpose", 0) end)
                  end
                  return t
               end
               local bad = rank == at and (what == "forward" or what == "backward" or what == "text")
               local stage = pipe.PipelineStage(bad and Worse() or build(size)[rank + 1], rank, size,
                  {group = group})
               local schedule = pipe.Schedule1F1B(stage, 4, {loss_fn = F.mse_loss})
               local first, last = rank == 0, rank == size - 1
               refused(text, function()
                  local o = {target = last and (what == "target" and y:narrow(1, 1, 7) or y) or nil}
                  if what == "option" and rank == at then o.targets = y end
                  local batch = what == "batch" and x:narrow(1, 1, 7) or x
                  if first then schedule:step(batch, o) else schedule:step(o) end
               end)
               refused(text, dist.barrier, group)
               dist.barrier()
            end
            for at = 0, size - 1 do
               fails("on purpose", at, "forward")
               fails("on purpose", at, "backward")
               if at < size - 1 then
                  fails('result 1: expected a tensor, got "text"', at, "text")
               end
               fails("unknown option targets", at, "option")
            end
            fails("argument 1: expected a tensor whose first dimension 4 divides", 0, "batch")
            fails("target: expected a tensor whose first dimension 4 divides", size - 1, "target")
         ]==], {breaks = true})
      end
   end)
end)

describe("the orders of schedules", function()
   -- Calls fn(plan, ranks, stages of each rank, micro-batches) for every schedule, and for all given numbers of ranks
   -- and of micro-batches that the schedule supports.
   local function for_all_plans(numbers_of_ranks, numbers_of_parts, fn)
      local pipe = torch.distributed.pipelining
      for _, n_ranks in ipairs(numbers_of_ranks) do
         for _, n in ipairs(numbers_of_parts) do
            fn(pipe.ScheduleGPipe._plan, n_ranks, 1, n)
            fn(pipe.Schedule1F1B._plan, n_ranks, 1, n)
            for _, here in ipairs {1, 2, 3} do
               if n <= n_ranks or n % n_ranks == 0 then fn(pipe.ScheduleInterleaved1F1B._plan, n_ranks, here, n) end
               fn(pipe.ScheduleInterleavedZeroBubble._plan, n_ranks, here, n)
               fn(pipe.ScheduleLoopedBFS._plan, n_ranks, here, n)
            end
            fn(pipe.ScheduleZBVZeroBubble._plan, n_ranks, 2, n)
            if n >= 2 * n_ranks then fn(pipe.ScheduleDualPipeV._plan, n_ranks, 2, n) end
         end
      end
   end

   -- Simulates all ranks. Each action takes one unit of time ("B" takes two), and begins when the actions that it
   -- depends on have ended. Returns the total time, and the longest idle time of any rank between its first and its
   -- last action.
   local function simulate(plan, n_ranks, here, n)
      local ends, at, free, lists, began, idle = {}, {}, {}, {}, {}, 0
      for r = 0, n_ranks - 1 do lists[r], at[r], free[r] = plan(r, n_ranks, here, n), 1, 0 end
      local stages, progress, last = n_ranks * here, true, 0
      local function when(kind, stage, m)
         if kind == "F" then
            return stage == 0 and 0 or ends[("F%d.%d"):format(stage - 1, m)]
         elseif kind == "W" then
            return ends[("I%d.%d"):format(stage, m)]
         end
         local after = ("%d.%d"):format(stage + 1, m)
         return stage == stages - 1 and ends[("F%d.%d"):format(stage, m)]
            or stage < stages - 1 and (ends["B" .. after] or ends["I" .. after])
      end
      while progress do
         progress = false
         for r = 0, n_ranks - 1 do
            local action = lists[r][at[r]]
            local ready = action and when(table.unpack(action))
            if ready then
               local kind, stage, m = table.unpack(action)
               if kind ~= "F" then assert.truthy(ends[("F%d.%d"):format(stage, m)]) end
               assert.truthy(stage % n_ranks == r or stage == 2 * n_ranks - 1 - r)
               began[r] = began[r] or math.max(ready, free[r])
               local key = kind .. stage .. "." .. m
               assert.is_nil(ends[key])
               ends[key] = math.max(ready, free[r]) + (kind == "B" and 2 or 1)
               free[r] = ends[key]
               last = math.max(last, ends[key])
               at[r], progress = at[r] + 1, true
            end
         end
      end
      for r = 0, n_ranks - 1 do
         local done = 0
         for i = 1, at[r] - 1 do done = done + (lists[r][i][1] == "B" and 2 or 1) end
         assert.equal(3 * here * n, done, ("rank %d of %d, %d stages, %d parts"):format(r, n_ranks, here, n))
         idle = math.max(idle, free[r] - began[r] - done)
      end
      return last, idle
   end

   it("run each part once forward and once backward on each stage", function()
      for_all_plans({1, 2, 3, 4, 8}, {1, 2, 3, 5, 8, 16}, simulate)
   end)

   -- Simulates ranks that run their batches of messages in order. A batch ends when, for each of its messages, the
   -- other rank has begun the batch that contains the same message. Returns the total number of batches and the total
   -- number of messages.
   local function exchange(plan, n_ranks, here, n)
      local lists, batches, stages, owners = {}, {}, n_ranks * here, {}
      for r = 0, n_ranks - 1 do
         lists[r + 1] = plan(r, n_ranks, here, n)
         for _, action in ipairs(lists[r + 1]) do owners[action[2]] = r end
      end
      for r = 0, n_ranks - 1 do
         local list, batch, got = {}, {}, {}
         local function flush()
            if #batch > 0 then list[#list + 1] = batch end
            batch = {}
         end
         local function receive(messages)
            for _, m in ipairs(messages) do
               local key = table.concat(m, " ")
               batch[#batch + 1], got[key] = key, true
            end
         end
         for _, action in ipairs(torch.distributed.pipelining.ScheduleGPipe.program(lists, r, stages - 1)) do
            local kind, stage, m = table.unpack(action)
            receive(action.before)
            flush()
            local from, to = stage - (kind == "F" and 1 or -1), stage + (kind == "F" and 1 or -1)
            local what = kind == "F" and "F" or "B"
            if kind ~= "W" and from >= 0 and from < stages and owners[from] ~= r then
               assert.truthy(got[table.concat({what, stage, m}, " ")])
            end
            receive(action.after)
            if kind ~= "W" and to >= 0 and to < stages and owners[to] ~= r then
               batch[#batch + 1] = table.concat({what, to, m}, " ")
            end
         end
         flush()
         batches[r + 1] = list
      end
      local at, begun, total, messages, progress = {}, {}, 0, 0, true
      for r = 1, n_ranks do at[r] = 0 end
      while progress do
         progress = false
         for r = 1, n_ranks do
            local ended = true
            for _, key in ipairs(batches[r][at[r]] or {}) do ended = ended and begun[key] == 2 end
            if ended and at[r] <= #batches[r] then
               at[r], progress = at[r] + 1, true
               for _, key in ipairs(batches[r][at[r]] or {}) do begun[key] = (begun[key] or 0) + 1 end
            end
         end
      end
      for r = 1, n_ranks do
         assert.equal(#batches[r] + 1, at[r], ("rank %d of %d, %d stages, %d parts"):format(r - 1, n_ranks, here, n))
         total = total + #batches[r]
      end
      for _, count in pairs(begun) do messages = messages + count end
      return total, messages
   end

   it("cause no deadlock if sends wait for their receivers", function()
      for_all_plans({2, 3, 4, 8}, {1, 2, 3, 8, 16}, exchange)
      -- With two ranks, every batch of messages both sends and receives, except the first and the last.
      local batches, messages = exchange(torch.distributed.pipelining.Schedule1F1B._plan, 2, 1, 16)
      assert.equal(4 * 16, messages)
      assert.truthy(batches <= 2 * (16 + 1))
   end)

   -- A micro-batch takes time F = 1 forward and B = 2 backward; B consists of I = 1 for the gradients of its inputs and
   -- W = 1 for the gradients of the weights. The papers give these idle times. 1F1B: (p - 1) (F + B). Both interleaved
   -- schedules: the time of 1F1B divided by the number of stages per rank. ZB-H1: (p - 1) (F + I - W). ZB-V: none once
   -- a rank has begun. DualPipeV: at most (p - 1) (F + B + B - 3 W), because F and B of a pair end together. In this
   -- simulation of DualPipeV, the next rank gets the result of F before B ends, so the idle time is only (p - 1) W.
   it("take as long as their papers say", function()
      local pipe = torch.distributed.pipelining
      for _, p in ipairs {2, 4, 8} do
         for _, n in ipairs {2 * p, 4 * p} do
            assert.equal(3 * n + 3 * (p - 1), simulate(pipe.ScheduleGPipe._plan, p, 1, n))
            assert.equal(3 * n + 3 * (p - 1), simulate(pipe.Schedule1F1B._plan, p, 1, n))
            for _, here in ipairs {2, 3} do
               assert.equal(3 * n * here + 3 * (p - 1), simulate(pipe.ScheduleInterleaved1F1B._plan, p, here, n))
            end
            assert.equal(3 * n + p - 1, simulate(pipe.ScheduleInterleavedZeroBubble._plan, p, 1, n))
            for _, here in ipairs {2, 3} do
               assert.equal(3 * n * here + 3 * (p - 1), simulate(pipe.ScheduleLoopedBFS._plan, p, here, n))
            end
            local time, idle = simulate(pipe.ScheduleZBVZeroBubble._plan, p, 2, n)
            assert.same({6 * n + p - 1, 0}, {time, idle})
            time, idle = simulate(pipe.ScheduleDualPipeV._plan, p, 2, n)
            assert.same({6 * n + p - 1, p - 1}, {time, idle})
         end
      end
   end)

   -- PyTorch 2.15 has these orders of actions for 2 ranks with 2 stages each and 4 micro-batches (2 micro-batches for
   -- ScheduleLoopedBFS).
   it("are PyTorch's", function()
      local expected = {
         ScheduleLoopedBFS = {"F0.1 F0.2 F2.1 F2.2 B2.2 B2.1 B0.2 B0.1", "F1.1 F1.2 F3.1 F3.2 B3.2 B3.1 B1.2 B1.1"},
         ScheduleZBVZeroBubble = {"F0.1 F0.2 F0.3 F3.1 I3.1 W3.1 F3.2 I3.2 W3.2 F0.4 I0.1 W0.1 F3.3 I3.3 " ..
               "W3.3 I0.2 W0.2 F3.4 I3.4 W3.4 I0.3 W0.3 I0.4 W0.4",
            "F1.1 F2.1 F1.2 F2.2 I2.1 W2.1 F1.3 I1.1 W1.1 F2.3 I2.2 W2.2 F1.4 I1.2 W1.2 F2.4 I2.3 W2.3 " ..
               "I1.3 I2.4 I1.4 W1.3 W2.4 W1.4"},
         ScheduleDualPipeV = {"F0.1 F0.2 F0.3 F3.1 I3.1 W3.1 F3.2 F0.4 B3.2 F3.3 B0.1 B3.3 F3.4 B0.2 B3.4 " ..
               "I0.3 W0.3 I0.4 W0.4",
            "F1.1 F2.1 F1.2 F2.2 F1.3 B2.1 F2.3 B1.1 F1.4 B2.2 F2.4 B1.2 B2.3 B1.3 I2.4 I1.4 W2.4 W1.4"},
      }
      for name, orders in pairs(expected) do
         for rank = 0, 1 do
            local parts = {}
            local n = name == "ScheduleLoopedBFS" and 2 or 4
            for i, a in ipairs(torch.distributed.pipelining[name]._plan(rank, 2, 2, n)) do
               parts[i] = ("%s%d.%d"):format(a[1], a[2], a[3])
            end
            assert.equal(orders[rank + 1], table.concat(parts, " "))
         end
      end
   end)

   -- Each rank has two stages of ZB-V but only one of 1F1B, so a stage of ZB-V is half as large.
   for name, row in sorted {
      ["ZB-V"] = {"ScheduleZBVZeroBubble", stages = 2}, ["ZB-H1"] = {"ScheduleInterleavedZeroBubble", stages = 1},
   } do
      it(("let a rank of %s hold at most as many parts as the first of 1F1B"):format(name), function()
         for p = 1, 6 do
            for rank = 0, p - 1 do
               local held, most = 0, 0
               for _, a in ipairs(torch.distributed.pipelining[row[1]]._plan(rank, p, row.stages, 4 * p)) do
                  held = held + (a[1] == "F" and 1 or a[1] == "W" and -1 or 0)
                  most = math.max(most, held)
               end
               assert.is_true(most <= row.stages * p)
            end
         end
      end)
   end

   it("let a rank of 1F1B hold at most as many parts as stages follow it", function()
      for rank = 0, 3 do
         local held, most = 0, 0
         for _, a in ipairs(torch.distributed.pipelining.Schedule1F1B._plan(rank, 4, 1, 16)) do
            held = held + (a[1] == "F" and 1 or -1)
            most = math.max(most, held)
         end
         assert.equal(4 - rank, most)
      end
   end)
end)
