-- schedules.lua - the order in which each rank of a pipeline computes the microbatches of a batch,
-- forward and backward. A schedule is a list of actions for each rank: {"F" or "B", stage,
-- microbatch}. "B" may be split into "I", which computes the gradients of arguments, and "W", which
-- computes the gradients of parameters.
--
-- All ranks send and receive in one global order: the order in which messages would be sent if all
-- actions took their usual times. So ranks with blocking calls, as NCCL's are, cannot deadlock:
-- both ends of the first pending message are working on that message. A send is held back until the
-- next action needs a receive, and both start as one batch.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local agree = require "tlua.distributed.agree"
local Stage = require "tlua.distributed.pipelining.PipelineStage"
local scopes = require "tlua.scope"

local M = {}

---@class distributed.pipelining.Schedule
---@field stages distributed.pipelining.PipelineStage[]  the stages of this rank
---@field n_microbatches integer
---@field style "loop"|"v"  the order in which stages are assigned to ranks: see
--- PipelineStage.rank_of
local Schedule = class.class("distributed.pipelining.Schedule")
Schedule.style = "loop"

local options = [[n_microbatches: count, loss_fn: callable?, scale_grads: boolean = true)]]

-- The assumed durations of actions, from which the order of messages is computed.
local durations <const> = {F = 1, B = 2, I = 1, W = 1}

-- Returns the key of an action's result in a table. Actions "B" and "I" have the same key, since
-- both give the gradients of arguments.
local function name_of(kind, stage, chunk)
   return ("%s%d.%d"):format(kind == "I" and "B" or kind, stage, chunk)
end

-- Returns a table that maps each stage to its rank. `lists` has the actions of each rank.
local function owners_of(lists)
   local owners = {}
   for r, list in ipairs(lists) do
      for _, action in ipairs(list) do owners[action[2]] = r - 1 end
   end
   return owners
end

-- Returns a table from actions to the times at which they end, if each rank starts each of its
-- actions as early as it can. `lists` has the actions of rank i - 1 at position i.
local function times_of(lists, last)
   local times, of_name, at, free, left = {}, {}, {}, {}, 0
   for r, list in ipairs(lists) do at[r], free[r], left = 1, 0, left + #list end
   while left > 0 do
      for r, list in ipairs(lists) do
         while list[at[r]] do
            local action = list[at[r]]
            local kind, stage, chunk = table.unpack(action)
            local needs = kind == "F" and stage > 0 and name_of(kind, stage - 1, chunk)
               or (kind == "B" or kind == "I") and stage < last and name_of(kind, stage + 1, chunk)
            local begins = needs and of_name[needs] or not needs and 0
            if not begins then break end
            free[r] = math.max(free[r], begins) + durations[kind]
            times[action], of_name[name_of(kind, stage, chunk)] = free[r], free[r]
            at[r], left = at[r] + 1, left - 1
         end
      end
   end
   return times
end

-- Returns the messages that a rank receives, in the order of their times. A message is {time,
-- sending rank, kind, receiving stage, microbatch}.
local function arrivals_of(lists, times, rank, last)
   local arrivals, owners = {}, owners_of(lists)
   for r, list in ipairs(lists) do
      for _, action in ipairs(r - 1 ~= rank and list or {}) do
         local kind, stage, chunk = table.unpack(action)
         local to = stage + (kind == "F" and 1 or -1)
         if kind ~= "W" and to >= 0 and to <= last and owners[to] == rank then
            arrivals[#arrivals + 1] = {times[action], r - 1, kind == "F" and "F" or "B", to, chunk}
         end
      end
   end
   table.sort(arrivals, function(a, b)
      if a[1] ~= b[1] then return a[1] < b[1] end
      return a[2] < b[2]
   end)
   return arrivals
end

-- Returns a list of all ranks' actions; the actions of rank r are at position r + 1.
local function lists_of(self, forward_only)
   local stage, lists = self.stages[1], {}
   local ranks = #stage.group.ranks
   local here, n = stage.num_stages // ranks, self.n_microbatches
   local all = self._plans and self._plans(ranks, here, n)
   for r = 0, ranks - 1 do
      lists[r + 1] = {}
      for _, action in ipairs(all and all[r] or self._plan(r, ranks, here, n)) do
         if not forward_only or action[1] == "F" then table.insert(lists[r + 1], action) end
      end
   end
   return lists
end

-- Returns one rank's actions. Each action has two lists of messages: the messages in `before` are
-- received before the action, and the messages in `after` between the action and its sends. A
-- message is {kind, receiving stage, microbatch}.
function Schedule.program(lists, rank, last)
   local owners = owners_of(lists)
   local times = times_of(lists, last)
   local arrivals, place, taken = arrivals_of(lists, times, rank, last), {}, 0
   for i, m in ipairs(arrivals) do place[name_of(m[3], m[4], m[5])] = i end
   local function take(to)
      local list = {}
      for i = taken + 1, to do list[#list + 1] = {table.unpack(arrivals[i], 3)} end
      taken = math.max(taken, to)
      return list
   end
   for _, action in ipairs(lists[rank + 1]) do
      local kind, index, chunk = table.unpack(action)
      local to = index + (kind == "F" and 1 or -1)
      action.before, action.after = take(place[name_of(kind, index, chunk)] or 0), {}
      if kind ~= "W" and to >= 0 and to <= last and owners[to] ~= rank then
         local i = taken
         while arrivals[i + 1] and (arrivals[i + 1][1] < times[action] or
               arrivals[i + 1][1] == times[action] and arrivals[i + 1][2] < rank) do
            i = i + 1
         end
         action.after = take(i)
      end
   end
   return lists[rank + 1]
end

function Schedule:setup(name, a, stages)
   for i, stage in ipairs(stages) do
      if not class.isinstance(stage, Stage) then
         args.refuse(name, "stage", "a PipelineStage", stage)
      end
      if stage.group ~= stages[1].group or stage.num_stages ~= stages[1].num_stages then
         torch.raise(name .. ": stages: expected stages of one group and one number of stages")
      elseif not stage.known ~= not stages[1].known then
         torch.raise(("%s: stages: expected input_args for all stages or for none; of stages %d "
            .. "and %d, only one has them"):format(name, stages[1].stage_index, stage.stage_index))
      end
      local ranks, rank = #stage.group.ranks, stage.group.group_rank
      local expected = (i - 1) * ranks + Stage.rank_of((i - 1) * ranks + rank, ranks, self.style)
      if stage.stage_index ~= expected then
         torch.raise(("%s: stages: expected stage %d as number %d, got stage %d"):format(name,
            expected, i, stage.stage_index))
      end
   end
   local here = stages[1].num_stages // #stages[1].group.ranks
   if #stages ~= here then
      torch.raise(("%s: stages: %d stages on %d ranks are %d for each, got %d"):format(name,
         stages[1].num_stages, #stages[1].group.ranks, here, #stages))
   end
   if self.style == "v" and here ~= 2 then
      torch.raise(("%s: stages: expected 2 on each rank, got %d"):format(name, here))
   end
   if a.n_microbatches < 1 or a.n_microbatches > 4095 then
      args.refuse(name, "n_microbatches", "1 to 4095", a.n_microbatches)
   end
   agree(name, "argument", stages[1].group, {
      name, ("%d parts"):format(a.n_microbatches), ("%d stages"):format(stages[1].num_stages),
      a.loss_fn and "a loss_fn" or "no loss_fn",
      stages[1].known and "stages with input_args" or "stages without input_args",
   })
   self.name, self.stages, self.n_microbatches = name, stages, a.n_microbatches
   self.loss_fn, self.scale_grads = a.loss_fn, a.scale_grads
   self.first, self.last = stages[1].is_first, stages[#stages].is_last
   self.by_index = {}
   for _, stage in ipairs(stages) do self.by_index[stage.stage_index] = stage end
   -- this rank's actions: programs[true] has backward passes, programs[false] has none
   self.programs = {}
end

-- Returns equal parts of a tensor along its first dimension; nil and a message if the tensor cannot
-- be divided.
local function split(self, what, tensor)
   local n = self.n_microbatches
   if not torch.is_tensor(tensor) or tensor:dim() == 0 or tensor:size(1) % n ~= 0 then
      return nil, ("%s.step: %s: expected a tensor whose first dimension %d divides, got %s")
         :format(self.name, what, n, args.describe(tensor))
   end
   return tensor:chunk(n, 1)
end

-- Returns the arguments of each microbatch: {{n = ..., ...}, ...}.
local function split_inputs(self, ...)
   local inputs, parts = table.pack(...), {}
   if inputs.n == 0 then
      return nil, self.name .. ".step: the first stage's rank gives the batch"
   end
   for m = 1, self.n_microbatches do parts[m] = {n = inputs.n} end
   for k = 1, inputs.n do
      local chunks, why = split(self, "argument " .. k, inputs[k])
      if not chunks then return nil, why end
      for m, chunk in ipairs(chunks) do parts[m][k] = chunk end
   end
   return parts
end

local function take_options(self, ...)
   local given = table.pack(...)
   local last = given[given.n]
   if type(last) ~= "table" or getmetatable(last) then return {}, ... end
   args.check_options(self.name .. ".step", last, "target", "losses")
   return last, table.unpack(given, 1, given.n - 1)
end

local function merge(outputs)
   local first = outputs[1]
   if first:dim() == 0 then return torch.stack(outputs) end
   return torch.cat(outputs, 1)
end

-- Returns the loss of a microbatch with the results `outputs`.
local function loss_of(self, outputs, targets, chunk, losses)
   local loss = self.loss_fn(outputs[1], targets and targets[chunk])
   losses[chunk] = loss:detach()
   return self.scale_grads and loss / self.n_microbatches or loss
end

-- Sends and receives that are started in one batch.
--@class pipelining.Batch
local Batch = {}
Batch.__index = Batch

function Batch:begin()
   if #self == 0 then return end
   for i, work in ipairs(torch.distributed.batch_isend_irecv(table.move(self, 1, #self, 1, {}))) do
      self[i].work, self.works[#self.works + 1] = work, work
   end
   for i = #self, 1, -1 do self[i] = nil end
end

function Batch:add(ops) table.move(ops, 1, #ops, #self + 1, self) end

-- Adds the operations that receive the messages before an action. If a stage does not know the
-- shapes of its inputs, they are received at once; other ranks may wait for this rank's pending
-- operations, so these are started first.
function Batch:receive(schedule, arrivals)
   for _, m in ipairs(arrivals) do
      local kind, stage, chunk = m[1], schedule.by_index[m[2]], m[3]
      if kind == "F" and stage:awaits_note() then
         self:begin()
         stage:take_note()
      end
      self:add(kind == "F" and stage:get_fwd_recv_ops(chunk) or stage:get_bwd_recv_ops(chunk))
   end
end

function Batch:send(schedule, action)
   local kind, index, chunk = table.unpack(action)
   local stage = schedule.by_index[index]
   self:receive(schedule, action.after)
   if kind == "F" then
      if chunk == 1 and not stage.is_last then
         self:begin()
         stage:send_note()
      end
      self:add(stage:get_fwd_send_ops(chunk))
   elseif kind ~= "W" then
      self:add(stage:get_bwd_send_ops(chunk))
   end
end

local function compute(self, batch, action)
   local kind, index, chunk = table.unpack(action)
   local stage = self.by_index[index]
   if kind == "W" then
      stage:weight_chunk(chunk)
   elseif kind == "F" then
      local outputs = stage:forward_chunk(chunk, batch.inputs and batch.inputs[chunk])
      if not stage.is_last then return end
      batch.results[chunk] = outputs[1]:detach()
      if batch.backward then
         batch.of_chunk[chunk] = loss_of(self, outputs, batch.targets, chunk, batch.losses)
      end
   else
      if self.splits then
         stage:input_chunk(chunk, batch.of_chunk[chunk])
         if kind == "B" then stage:weight_chunk(chunk) end
      else
         batch.left[index] = (batch.left[index] or 0) + 1
         stage:backward_chunk(chunk, batch.of_chunk[chunk],
            batch.left[index] == self.n_microbatches)
      end
      batch.of_chunk[chunk] = nil
   end
end

-- Tells all other ranks that this rank has failed, so that they do not wait for this rank's
-- messages.
local function tell_failure(self, batch, message)
   local group = self.stages[1].group
   if #group.ranks == 1 then return end
   local action = batch.action
   group.raw:abort(("rank %d: %s%s"):format(torch.distributed.get_rank(),
      action and ("stage %d: "):format(action[2]) or "", tostring(message)))
end

local function run(self, backward, ...)
   local mail, messages = {}, setmetatable({works = {}}, Batch)
   local batch = {backward = backward, results = {}, losses = {}, of_chunk = {}, left = {}}
   local _ <close> = scopes.new(function(message)
      if message ~= nil then tell_failure(self, batch, message) end
   end)
   local given = table.pack(take_options(self, ...))
   local o, why = given[1]
   for _, stage in ipairs(self.stages) do
      stage:begin(mail, self.style)
      if stage.store then stage.store.on = backward and self.splits or false end
   end
   if self.first then
      batch.inputs, why = split_inputs(self, table.unpack(given, 2, given.n))
      if not batch.inputs then torch.raise(why) end
   end
   if self.last and o.target ~= nil then
      batch.targets, why = split(self, "target", o.target)
      if not batch.targets then torch.raise(why) end
   end
   local program = self.programs[backward] or self.program(lists_of(self, not backward),
      self.stages[1].group.group_rank, self.stages[1].num_stages - 1)
   self.programs[backward] = program
   for _, action in ipairs(program) do
      messages:receive(self, action.before)
      messages:begin()
      batch.action = action
      compute(self, batch, action)
      batch.action = nil
      messages:send(self, action)
   end
   messages:begin()
   for _, work in ipairs(messages.works) do work:wait() end
   if not self.last then return nil end
   if o.losses then table.move(batch.losses, 1, #batch.losses, 1, o.losses) end
   return merge(batch.results)
end

--- Runs one batch forward and, if the schedule has a loss_fn, backward. Gradients are accumulated.
--- They are the gradients of the mean loss unless scale_grads is false. The first stage's rank
--- passes the batch, and the last stage's rank the target; other ranks pass nothing. Both are split
--- into n_microbatches equal microbatches along their first dimension. A failure on one rank is an
--- error on all ranks, and their group cannot be used afterwards.
---@param ... Tensor  the batch, then {target =, losses =}; the losses of the microbatches are
--- stored in the list `losses` from position 1 on
---@return Tensor?  the results of all microbatches, on the last stage's rank
function Schedule:step(...)
   return run(self, self.loss_fn ~= nil, ...)
end

--- Runs one batch forward only, without gradients.
---@param ... Tensor
---@return Tensor?
function Schedule:eval(...)
   local _ <close> = torch.no_grad()
   local result = run(self, false, ...)
   return result
end

-- The orders -------------------------------------------------------------------------------------

-- Defines a class of schedules that allow several stages on a rank.
local function define_interleaved(name, check)
   local cls = class.class("distributed.pipelining." .. name, Schedule)
   local take = args.signature(name .. "(stages: table, " .. options)
   function cls:__init(...)
      local a = take(...)
      if not class.isinstance(a.stages[1], Stage) then
         args.refuse(name, "stages", "a list of PipelineStages", a.stages[1])
      end
      if check then check(name, a) end
      self:setup(name, a, a.stages)
   end
   M[name] = cls
   return cls
end

local function define(name, plan)
   local cls = class.class("distributed.pipelining." .. name, Schedule)
   cls._plan = plan
   local take = args.signature(name .. "(stage: any, " .. options)
   function cls:__init(...)
      local a = take(...)
      self:setup(name, a, {a.stage})
   end
   M[name] = cls
   return cls
end

--- Runs all microbatches forward, then all backward: "GPipe" (Huang et al., 2019).
---
---     local dist, nn = torch.distributed, torch.nn
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local stage = dist.pipelining.PipelineStage(nn.Linear(2, 1), 0, 1)
---     local schedule = dist.pipelining.ScheduleGPipe(stage, 2, {
---        loss_fn = nn.MSELoss(),
---     })
---     local losses = {}
---     local options = {target = torch.ones(4, 1), losses = losses}
---     schedule:step(torch.ones(4, 2), options)
---     print(#losses, stage.submodule.weight.grad.shape)
---     dist.destroy_process_group()
---     --> 2	torch.Size([1, 2])
---@class distributed.pipelining.ScheduleGPipe: distributed.pipelining.Schedule
---@overload fun(stage: any, n_microbatches: integer, options?: table): any
define("ScheduleGPipe", function(rank, _, _, n)
   local list = {}
   for m = 1, n do list[#list + 1] = {"F", rank, m} end
   for m = 1, n do list[#list + 1] = {"B", rank, m} end
   return list
end)

-- Returns a list of forward actions, then forward and backward actions in turn, then the remaining
-- backward actions.
local function alternate(warm, total, forward, backward)
   local list = {}
   for i = 1, warm do list[#list + 1] = forward(i - 1) end
   for i = 1, total do
      if warm + i <= total then list[#list + 1] = forward(warm + i - 1) end
      list[#list + 1] = backward(i - 1)
   end
   return list
end

--- Alternates one forward and one backward action, so that a stage holds no more microbatches than
--- there are stages from this stage to the last: "PipeDream-Flush" (Narayanan et al., 2021).
---
---     local dist, nn = torch.distributed, torch.nn
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local stage = dist.pipelining.PipelineStage(nn.Linear(2, 1), 0, 1)
---     local schedule = dist.pipelining.Schedule1F1B(stage, 2, {
---        loss_fn = nn.MSELoss(),
---     })
---     local losses = {}
---     local options = {target = torch.ones(4, 1), losses = losses}
---     schedule:step(torch.ones(4, 2), options)
---     print(#losses, stage.submodule.weight.grad.shape)
---     dist.destroy_process_group()
---     --> 2	torch.Size([1, 2])
---@class distributed.pipelining.Schedule1F1B: distributed.pipelining.Schedule
---@overload fun(stage: any, n_microbatches: integer, options?: table): any
define("Schedule1F1B", function(rank, ranks, _, n)
   return alternate(math.min(n, ranks - rank - 1), n,
      function(i) return {"F", rank, i + 1} end,
      function(i) return {"B", rank, i + 1} end)
end)

--- Runs the schedule 1F1B with several stages on each rank, which shortens the ranks' idle time:
--- "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (Narayanan et
--- al., 2021), section 2.2. n_microbatches is a multiple of the number of ranks, or smaller.
---
---     local dist, nn = torch.distributed, torch.nn
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local stages = {}
---     for i = 0, 1 do
---        local layer = nn.Linear(2, 2)
---        stages[i + 1] = dist.pipelining.PipelineStage(layer, i, 2)
---     end
---     local schedule = dist.pipelining.ScheduleInterleaved1F1B(stages, 2, {
---        loss_fn = nn.MSELoss(),
---     })
---     local losses = {}
---     local options = {target = torch.ones(4, 2), losses = losses}
---     schedule:step(torch.ones(4, 2), options)
---     print(#losses, stages[1].submodule.weight.grad.shape)
---     dist.destroy_process_group()
---     --> 2	torch.Size([2, 2])
---@class distributed.pipelining.ScheduleInterleaved1F1B: distributed.pipelining.Schedule
---@overload fun(stages: table, n_microbatches: integer, options?: table): any
local Interleaved = define_interleaved("ScheduleInterleaved1F1B", function(name, a)
   local ranks, n = #a.stages[1].group.ranks, a.n_microbatches
   if n > ranks and n % ranks ~= 0 then
      args.refuse(name, "n_microbatches", ("a multiple of the %d ranks"):format(ranks), n)
   end
end)

function Interleaved._plan(rank, ranks, here, n)
   -- the number of microbatches computed before the next stage's turn
   local round = math.min(n, ranks)
   local function part(i) return i // (round * here) * round + i % round + 1 end
   local function forward(i) return {"F", i // round % here * ranks + rank, part(i)} end
   local function backward(i)
      return {"B", (here - 1 - i // round % here) * ranks + rank, part(i)}
   end
   local warm = math.min((here - 1) * round + 2 * (ranks - 1 - rank), n * here)
   return alternate(warm, n * here, forward, backward)
end

--- Runs all microbatches forward on one of a rank's stages, then on its next stage, and backward in
--- the same way, from the last microbatch to the first: "Breadth-First Pipeline Parallelism"
--- (Lamy-Poirier, 2022).
---
---     local dist, nn = torch.distributed, torch.nn
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local stages = {}
---     for i = 0, 1 do
---        local layer = nn.Linear(2, 2)
---        stages[i + 1] = dist.pipelining.PipelineStage(layer, i, 2)
---     end
---     local schedule = dist.pipelining.ScheduleLoopedBFS(stages, 2, {
---        loss_fn = nn.MSELoss(),
---     })
---     local losses = {}
---     local options = {target = torch.ones(4, 2), losses = losses}
---     schedule:step(torch.ones(4, 2), options)
---     print(#losses, stages[1].submodule.weight.grad.shape)
---     dist.destroy_process_group()
---     --> 2	torch.Size([2, 2])
---@class distributed.pipelining.ScheduleLoopedBFS: distributed.pipelining.Schedule
---@overload fun(stages: table, n_microbatches: integer, options?: table): any
local LoopedBFS = define_interleaved "ScheduleLoopedBFS"

function LoopedBFS._plan(rank, ranks, here, n)
   local list = {}
   for i = 0, here - 1 do
      for m = 1, n do list[#list + 1] = {"F", i * ranks + rank, m} end
   end
   for i = here - 1, 0, -1 do
      for m = n, 1, -1 do list[#list + 1] = {"B", i * ranks + rank, m} end
   end
   return list
end

-- Prepares the stages for schedules that compute the gradients of arguments and parameters
-- separately.
local function defer_all(name, a)
   for _, stage in ipairs(a.stages) do
      if class.isinstance(stage, Stage) then stage:defer(name) end
   end
end

--- Splits the backward pass: gradients of arguments, which the stages before wait for, are computed
--- first, and the gradients of linear layers' parameters when a rank would otherwise be idle. With
--- one stage on each rank the schedule is ZB-H1 of "Zero Bubble Pipeline Parallelism" (Qi et al.,
--- 2023), which uses as much memory as 1F1B and has a third of 1F1B's idle time. The order is found
--- by simulating all ranks in steps of equal time.
---
---     local dist, nn = torch.distributed, torch.nn
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local stages = {}
---     for i = 0, 1 do
---        local layer = nn.Linear(2, 2)
---        stages[i + 1] = dist.pipelining.PipelineStage(layer, i, 2)
---     end
---     local schedule = dist.pipelining.ScheduleInterleavedZeroBubble(stages, 2, {
---        loss_fn = nn.MSELoss(),
---     })
---     local losses = {}
---     local options = {target = torch.ones(4, 2), losses = losses}
---     schedule:step(torch.ones(4, 2), options)
---     print(#losses, stages[1].submodule.weight.grad.shape)
---     dist.destroy_process_group()
---     --> 2	torch.Size([2, 2])
---@class distributed.pipelining.ScheduleInterleavedZeroBubble: distributed.pipelining.Schedule
---@overload fun(stages: table, n_microbatches: integer, options?: table): any
local ZeroBubble = define_interleaved("ScheduleInterleavedZeroBubble", defer_all)
ZeroBubble.splits = true

-- Rank r has `here` stages. Returns the last of them for which next_part(stage) returns a
-- microbatch, and the microbatch; returns nothing if there is no such stage.
local function find(r, ranks, here, next_part)
   for i = here - 1, 0, -1 do
      local s = i * ranks + r
      local m = next_part(s)
      if m then return s, m end
   end
end

-- Chooses a rank's next action among the possible ones. A rank holds at most as many microbatches
-- as under 1F1B; while it holds fewer, it prefers forward actions. It computes gradients of
-- parameters only if no other action is possible, or if it holds as many deferred microbatches as
-- the first stage holds under 1F1B.
local function choose(r, ranks, here, n, done, state)
   local last = ranks * here - 1
   local back, back_part = find(r, ranks, here, function(s)
      local m = state.I[s] + 1
      local ready = m <= state.F[s] and (s == last or done["I" .. s + 1 .. "." .. m])
      return ready and m
   end)
   local ahead, ahead_part
   if state.under_way < state.most and state.held < state.limit then
      ahead, ahead_part = find(r, ranks, here, function(s)
         local m = state.F[s] + 1
         return m <= n and (s == 0 or done["F" .. s - 1 .. "." .. m]) and m
      end)
   end
   if back and (state.under_way >= state.most or not ahead) then return "I", back, back_part end
   if ahead then return "F", ahead, ahead_part end
   local late, late_part = find(r, ranks, here, function(s)
      return state.W[s] < state.I[s] and state.W[s] + 1
   end)
   if late then return "W", late, late_part end
end

-- Returns the largest number of microbatches that rank r holds at once under the schedule 1F1B.
-- `here` is the number of its stages, and n the number of microbatches.
local function most_under_way(r, ranks, here, n)
   if here == 1 then return ranks - r end
   return math.min((here - 1) * math.min(n, ranks) + 2 * (ranks - 1 - r), n * here) + 1
end

-- Simulates all ranks step by step. Returns a list of actions for each rank.
local function simulate(ranks, here, n)
   local lists, states, done, left = {}, {}, {}, 3 * n * ranks * here
   for r = 0, ranks - 1 do
      local state = {
         F = {}, I = {}, W = {}, under_way = 0, held = 0, most = most_under_way(r, ranks, here, n),
         limit = most_under_way(0, ranks, here, n),
      }
      for i = 0, here - 1 do
         local s = i * ranks + r
         state.F[s], state.I[s], state.W[s] = 0, 0, 0
      end
      lists[r], states[r] = {}, state
   end
   while left > 0 do
      local now = {}
      for r = 0, ranks - 1 do
         local kind, s, m = choose(r, ranks, here, n, done, states[r])
         if kind then now[#now + 1] = {r, kind, s, m} end
      end
      if #now == 0 then -- No rank has an action, since each holds as many microbatches as it may.
         for r = 0, ranks - 1 do
            states[r].most, states[r].limit = states[r].most + 1, states[r].limit + 1
         end
      end
      for _, a in ipairs(now) do
         local r, kind, s, m = table.unpack(a)
         local state = states[r]
         state[kind][s] = m
         state.under_way = state.under_way + (kind == "F" and 1 or kind == "I" and -1 or 0)
         state.held = state.held + (kind == "F" and 1 or kind == "W" and -1 or 0)
         done[kind .. s .. "." .. m] = true
         table.insert(lists[r], {kind, s, m})
         left = left - 1
      end
   end
   return lists
end

ZeroBubble._plans = simulate

function ZeroBubble._plan(rank, ranks, here, n)
   return simulate(ranks, here, n)[rank]
end

-- V-shaped schedules: each rank has a stage on the way down, `a`, and one on the way back up, `b`.

-- Returns an empty list of actions, a function that appends to the list, and a function that counts
-- actions. The call add("FaIbWb", times) appends the actions "F" of stage a, "I" of stage b and "W"
-- of stage b, each for the next microbatch, and repeats this `times` times. count "Fa" returns how
-- often "Fa" was appended.
local function counting(rank, ranks)
   local stages, counts, list = {a = rank, b = 2 * ranks - 1 - rank}, {}, {}
   local function count(what) return counts[what] or 0 end
   local function add(actions, times)
      for _ = 1, times do
         for kind, side in actions:gmatch "(%u)(%l)" do
            local what = (kind == "B" and "I" or kind) .. side
            counts[what] = count(what) + 1
            list[#list + 1] = {kind, stages[side], counts[what]}
         end
      end
   end
   return list, add, count
end

--- Splits the backward pass. If all actions take equal times, no rank is idle between its first
--- and its last action. Each rank uses as much memory as the first rank under 1F1B: ZB-V of "Zero
--- Bubble Pipeline Parallelism" (Qi et al., 2023), section 6. Rank i has two of the 2 N stages:
--- i and 2 N - 1 - i. Idle time is avoided only if n_microbatches is at least
--- 2 N - 1.
---
---     local dist, nn = torch.distributed, torch.nn
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local stages = {}
---     for i = 0, 1 do
---        local layer = nn.Linear(2, 2)
---        stages[i + 1] = dist.pipelining.PipelineStage(layer, i, 2)
---     end
---     local schedule = dist.pipelining.ScheduleZBVZeroBubble(stages, 2, {
---        loss_fn = nn.MSELoss(),
---     })
---     local losses = {}
---     local options = {target = torch.ones(4, 2), losses = losses}
---     schedule:step(torch.ones(4, 2), options)
---     print(#losses, stages[1].submodule.weight.grad.shape)
---     dist.destroy_process_group()
---     --> 2	torch.Size([2, 2])
---@class distributed.pipelining.ScheduleZBVZeroBubble: distributed.pipelining.Schedule
---@overload fun(stages: table, n_microbatches: integer, options?: table): any
local ZBV = define_interleaved("ScheduleZBVZeroBubble", defer_all)
ZBV.splits, ZBV.style = true, "v"

function ZBV._plan(rank, ranks, _, n)
   local list, add, count = counting(rank, ranks)
   -- Actions are listed for this number of microbatches. Those of the surplus microbatches are
   -- removed at the end.
   local most = math.max(n, 2 * ranks - 1)
   add("Fa", 2 * (ranks - rank) - 1)
   add("FbFa", rank)
   add("FbIbWb", ranks - rank)
   while count "Fb" < most do
      add(count "Fa" < most and "FaIaWaFbIbWb" or "IaWaFbIbWb", 1)
   end
   add("IaIb", rank)
   add("IaWa", ranks - rank)
   add("Wb", count "Ib" - count "Wb")
   add("Wa", count "Ia" - count "Wa")
   local kept = {}
   for _, action in ipairs(list) do
      if action[3] <= n then kept[#kept + 1] = action end
   end
   return kept
end

--- A V-shaped schedule that pairs forward with backward actions, and splits a backward action if
--- ranks would wait: half of DualPipe, from "DeepSeek-V3 Technical Report" (DeepSeek-AI, 2024).
--- Stages are assigned as in ScheduleZBVZeroBubble; n_microbatches must be at least the number of
--- stages.
---
---     local dist, nn = torch.distributed, torch.nn
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local stages = {}
---     for i = 0, 1 do
---        local layer = nn.Linear(2, 2)
---        stages[i + 1] = dist.pipelining.PipelineStage(layer, i, 2)
---     end
---     local schedule = dist.pipelining.ScheduleDualPipeV(stages, 2, {
---        loss_fn = nn.MSELoss(),
---     })
---     local losses = {}
---     local options = {target = torch.ones(4, 2), losses = losses}
---     schedule:step(torch.ones(4, 2), options)
---     print(#losses, stages[1].submodule.weight.grad.shape)
---     dist.destroy_process_group()
---     --> 2	torch.Size([2, 2])
---@class distributed.pipelining.ScheduleDualPipeV: distributed.pipelining.Schedule
---@overload fun(stages: table, n_microbatches: integer, options?: table): any
local DualPipeV = define_interleaved("ScheduleDualPipeV", function(name, a)
   local stages = a.stages[1].num_stages
   if a.n_microbatches < stages then
      args.refuse(name, "n_microbatches", ("at least the %d stages"):format(stages),
         a.n_microbatches)
   end
   defer_all(name, a)
end)
DualPipeV.splits, DualPipeV.style = true, "v"

function DualPipeV._plan(rank, ranks, _, n)
   local list, add = counting(rank, ranks)
   -- a list of {stage, microbatch}, for which the actions "W" are still to be listed
   local after, late = ranks - 1 - rank, {}
   local function add_late()
      local action = table.remove(late, 1)
      if action then list[#list + 1] = {"W", action[1], action[2]} end
   end
   local function back(side, in_two)
      add((in_two and "I" or "B") .. side, 1)
      local action = list[#list]
      if in_two then late[#late + 1] = {action[2], action[3]} end
   end
   add("Fa", 2 * after)
   add("FaFb", rank + 1)
   for _ = 1, after do
      back("b", true)
      add_late()
      add("Fb", 1)
   end
   add("FaBbFbBa", n - 2 * ranks + rank + 1)
   add("BbFbBa", after)
   -- from the middle of this loop on, backward actions are split into "I" and "W"
   local half = (rank + 1) // 2
   for i = 0, rank do
      back("b", i > half or i == half and rank % 2 == 1)
      back("a", i >= half)
   end
   for _ = 1, after do
      add_late()
      back("a", true)
   end
   for _ = 0, rank do add_late() end
   return list
end

return M
