-- PipelineStage.lua - a part of a model on one rank. A stage receives activations from the previous
-- stage and sends its results to the next one; gradients travel in the opposite direction.
--
-- Before the first microbatch of a batch, each stage sends the shapes and dtypes of its results.
-- The stage passes its sends and receives as P2POps to the schedule, which starts them as a batch.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local deferred = require "tlua.distributed.pipelining.deferred"
local groups = require "tlua.distributed.group"
local DDP = require "tlua.distributed.DistributedDataParallel"
local Module = require "tlua.nn.modules.Module"

---     local dist = torch.distributed
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local model = torch.nn.Linear(2, 1)
---     local stage = dist.pipelining.PipelineStage(model, 0, 1)
---     print(stage.is_first, stage.is_last, stage.device)
---     dist.destroy_process_group()
---     --> true	true	cpu
---@class distributed.pipelining.PipelineStage
---@field submodule nn.Module  the module that the stage runs
---@field stage_index integer  from 0
---@field num_stages integer  the number of stages of the whole pipeline
---@field is_first boolean  whether the stage gets the model's input
---@field is_last boolean  whether the stage's result is the model's output
---@overload fun(submodule: nn.Module, stage_index: integer, num_stages: integer, device?: any,
---@     options?: table): distributed.pipelining.PipelineStage
local Stage = class.class("distributed.pipelining.PipelineStage")

local take = args.signature [[PipelineStage(submodule: any, stage_index: count, num_stages: count,
   device: device?, input_args: any?, group: object?)]]

-- Returns a list of the tensors' {shape, dtype}.
local function shapes_of(tensors)
   local list, shapes = torch.is_tensor(tensors) and {tensors} or tensors, {}
   for k = 1, type(list) == "table" and #list or 1 do
      local t = type(list) == "table" and list[k] or list
      if not torch.is_tensor(t) then
         args.refuse("PipelineStage", "input_args", "a tensor or a list of them", t)
      end
      shapes[k] = {shape = table.move(t.shape, 1, t:dim(), 1, {}), dtype = t.dtype}
   end
   return shapes
end

--- Returns the rank, from 0, of a stage. The style "loop" assigns the stages to the ranks round
--- robin. The style "v" assigns them to the ranks in ascending order and then in descending order.
---@param stage integer
---@param ranks integer  the number of ranks
---@param style "loop"|"v"
---@return integer
function Stage.rank_of(stage, ranks, style)
   local at = stage % ranks
   return style == "v" and stage // ranks % 2 == 1 and ranks - 1 - at or at
end

--- Makes the stage. Stages are numbered from 0. `group` has N ranks, by default all. Stage i is on
--- rank i % N; in V-shaped schedules with 2 N stages, it is on rank i or 2 N - 1 - i. device: where
--- activations are received, by default the parameters' device. input_args: a tensor, or a list,
--- with the shapes and dtypes of this stage's inputs for one microbatch. If all stages get
--- input_args, no shapes are sent. If no stage gets it, each stage sends shapes to the next one
--- with the first microbatch. A stage with input_args sends no shapes, so all stages must get it,
--- or none; otherwise the schedule raises an error when it is made.
---@param submodule nn.Module
---@param stage_index integer
---@param num_stages integer
---@param device? string|torch.device
---@param options? {device: string|torch.device, input_args: Tensor|Tensor[],
--- group: distributed.ProcessGroup}
function Stage:__init(...)
   local a = take(...)
   local name <const> = "PipelineStage"
   if not class.isinstance(a.submodule, Module) then
      args.refuse(name, "submodule", "a module", a.submodule)
   end
   local group = groups.resolve(name, a.group)
   if not group then torch.raise(name .. ": group: this rank is not in it") end
   local ranks = #group.ranks
   if a.num_stages < 1 or a.num_stages % ranks ~= 0 then
      args.refuse(name, "num_stages", ("a multiple of the group's %d ranks"):format(ranks),
         a.num_stages)
   end
   if a.stage_index >= a.num_stages then
      args.refuse(name, "stage_index", ("0 to %d"):format(a.num_stages - 1), a.stage_index)
   end
   local here = group.group_rank
   if Stage.rank_of(a.stage_index, ranks, "loop") ~= here and
         Stage.rank_of(a.stage_index, ranks, "v") ~= here then
      torch.raise(("%s: stage_index: stage %d is on rank %d of the group, this is rank %d"):format(
         name, a.stage_index, a.stage_index % ranks, group.group_rank))
   end
   local first = a.submodule:parameters()[1]
   self.submodule, self.stage_index, self.num_stages = a.submodule, a.stage_index, a.num_stages
   self.group, self.device = group, a.device or first and first.device or "cpu"
   self.is_first, self.is_last = a.stage_index == 0, a.stage_index == a.num_stages - 1
   self.chunks, self.arriving = {}, {}
   if a.input_args ~= nil then self.known = shapes_of(a.input_args) end
end

-- Messages ---------------------------------------------------------------------------------------

local forward <const>, backward <const> = 0, 1

-- Returns the world rank of the process that has another stage.
local function peer(self, stage)
   local ranks = self.group.ranks
   return ranks[Stage.rank_of(stage, #ranks, self.style) + 1]
end

local function is_here(self, stage) return peer(self, stage) == torch.distributed.get_rank() end

local function tag(stage, direction, chunk, k)
   return ((stage * 2 + direction) * 4096 + chunk) * 64 + k
end

local function operation(self, op, tensor, stage, number)
   return torch.distributed.P2POp(op, tensor, peer(self, stage), {group = self.group, tag = number})
end

-- Appends the P2POp that sends a tensor to another stage. If that stage is on this rank, stores the
-- tensor in `mail` instead.
local function add_send(self, ops, tensor, stage, number)
   if is_here(self, stage) then
      self.mail[number] = tensor
   else
      ops[#ops + 1] = operation(self, torch.distributed.isend, tensor:contiguous(), stage, number)
   end
end

local function add_receive(self, ops, like, stage, number)
   local tensor = torch.empty(like.shape, {dtype = like.dtype, device = self.device})
   local op = operation(self, torch.distributed.irecv, tensor, stage, number)
   ops[#ops + 1], self.arriving[number] = op, op
end

-- Returns the tensor with a number that tells stage and microbatch: the tensor that add_receive has
-- requested, after waiting for it, or the tensor that another stage of this rank has stored in
-- `mail`.
local function take_tensor(self, number)
   local op = self.arriving[number]
   if op then
      self.arriving[number] = nil
      op.work:wait()
      return op.tensor
   end
   local tensor = self.mail[number]
   self.mail[number] = nil
   return tensor
end

--- Returns whether the previous stage must send shapes and dtypes before its results can be
--- received.
---@return boolean
function Stage:awaits_note()
   return self.expected == nil
end

--- Waits for the shapes and dtypes of the previous stage's results.
function Stage:take_note()
   local number = tag(self.stage_index, forward, 0, 0)
   if is_here(self, self.stage_index - 1) then
      self.expected, self.mail[number] = self.mail[number], nil
   else
      local list = {}
      torch.distributed.recv_object_list(list, peer(self, self.stage_index - 1),
         {group = self.group, tag = number})
      self.expected = list[1]
   end
end

--- Sends the shapes and dtypes of the first microbatch's results to the next stage.
function Stage:send_note()
   if self.is_last or self.known then return end
   local number, note = tag(self.stage_index + 1, forward, 0, 0), {}
   local outputs = self.chunks[1].outputs
   for k = 1, outputs.n do
      note[k] = {shape = table.move(outputs[k].shape, 1, outputs[k]:dim(), 1, {}),
         dtype = outputs[k].dtype}
   end
   if is_here(self, self.stage_index + 1) then
      self.mail[number] = note
   else
      torch.distributed.send_object_list({note}, peer(self, self.stage_index + 1),
         {group = self.group, tag = number})
   end
end

--- Returns the operations that receive a microbatch's arguments: an empty list if the arguments
--- come from a stage of this rank.
---@param chunk integer
---@return distributed.P2POp[]
function Stage:get_fwd_recv_ops(chunk)
   local ops = {}
   if self.is_first or is_here(self, self.stage_index - 1) then return ops end
   for k, like in ipairs(self.expected) do
      add_receive(self, ops, like, self.stage_index - 1, tag(self.stage_index, forward, chunk, k))
   end
   return ops
end

--- Returns the operations that send the results of a microbatch.
---@param chunk integer
---@return distributed.P2POp[]
function Stage:get_fwd_send_ops(chunk)
   local ops = {}
   if self.is_last then return ops end
   local outputs, to = self.chunks[chunk].outputs, self.stage_index + 1
   for k = 1, outputs.n do
      add_send(self, ops, outputs[k]:detach(), to, tag(to, forward, chunk, k))
   end
   return ops
end

--- Returns the operations that receive the gradients of a microbatch's results.
---@param chunk integer
---@return distributed.P2POp[]
function Stage:get_bwd_recv_ops(chunk)
   local ops = {}
   if self.is_last or is_here(self, self.stage_index + 1) then return ops end
   local outputs = self.chunks[chunk].outputs
   for k = 1, outputs.n do
      if outputs[k]:is_floating_point() then
         add_receive(self, ops, outputs[k], self.stage_index + 1,
            tag(self.stage_index, backward, chunk, k))
      end
   end
   return ops
end

--- Returns the operations that send the gradients of a microbatch's arguments, which backward_chunk
--- has computed.
---@param chunk integer
---@return distributed.P2POp[]
function Stage:get_bwd_send_ops(chunk)
   local ops, to = {}, self.stage_index - 1
   if self.is_first then return ops end
   local inputs = self.sending
   self.sending = nil
   for k = 1, inputs.n do
      local input = inputs[k]
      if input:is_floating_point() then
         add_send(self, ops, input.grad or torch.zeros_like(input), to,
            tag(to, backward, chunk, k))
      end
   end
   return ops
end

-- A step -----------------------------------------------------------------------------------------

--- Prepares for the first microbatch of a batch. `mail` is a table in which the stages of this rank
--- leave tensors for one another. `style` is an argument of rank_of.
function Stage:begin(mail, style)
   self.style = style
   self.chunks, self.arriving, self.mail, self.kept = {}, {}, mail, {}
   self.expected = self.known
end

-- Returns the inputs of a microbatch, which come from the previous stage.
local function inputs_of(self, chunk)
   if self:awaits_note() then self:take_note() end
   local inputs = {n = #self.expected}
   for k = 1, inputs.n do
      local input = take_tensor(self, tag(self.stage_index, forward, chunk, k)):detach()
      if input:is_floating_point() and torch.is_grad_enabled() then input:requires_grad_() end
      inputs[k] = input
   end
   return inputs
end

--- Computes a microbatch.
---@param chunk integer
---@param inputs any[]  the arguments of the first stage; the field `n` is their number
---@return table outputs  the results, with `n`
function Stage:forward_chunk(chunk, inputs)
   inputs = self.is_first and inputs or inputs_of(self, chunk)
   local outputs = table.pack(self.submodule(table.unpack(inputs, 1, inputs.n)))
   for k = 1, self.is_last and 0 or outputs.n do
      if not torch.is_tensor(outputs[k]) then
         torch.raise(("PipelineStage: result %d: expected a tensor, got %s"):format(k,
            args.describe(outputs[k])))
      end
   end
   self.chunks[chunk] = {inputs = inputs, outputs = outputs}
   return outputs
end

-- Sets whether the next backward pass averages gradients over ranks. Only the last backward pass of
-- a step does.
local function set_sync(self, sync)
   local module = self.submodule
   if class.isinstance(module, DDP) then
      rawset(module, "sync", sync)
   elseif rawget(module, "set_requires_gradient_sync") then
      module:set_requires_gradient_sync(sync)
   end
end

--- Computes the backward pass of a microbatch, from `loss` on the last stage, and from the next
--- stage's gradients on all other stages. get_bwd_send_ops sends the gradients of the arguments.
---@param chunk integer
---@param loss? Tensor
---@param last boolean  whether it is the step's last backward pass
function Stage:backward_chunk(chunk, loss, last)
   local c = self.chunks[chunk]
   self.chunks[chunk] = nil
   set_sync(self, last)
   if self.is_last then
      loss:backward()
   else
      local roots, grads = {}, {}
      for k = 1, c.outputs.n do
         local output = c.outputs[k]
         if output:is_floating_point() then
            local grad = take_tensor(self, tag(self.stage_index, backward, chunk, k))
            if output.requires_grad then roots[#roots + 1], grads[#grads + 1] = output, grad end
         end
      end
      if #roots > 0 then torch.autograd.backward(roots, grads) end
   end
   set_sync(self, true)
   self.sending = c.inputs
end

--- Makes linear layers compute the gradients of their parameters only when weight_chunk is called.
--- The call is refused if the module averages gradients over ranks as they are computed.
function Stage:defer(name)
   local module = self.submodule
   if class.isinstance(module, DDP) or rawget(module, "set_requires_gradient_sync") then
      torch.raise(name .. ": stages: DistributedDataParallel and fully_shard cannot wait for " ..
         "the gradients of parameters; average them after the step")
   end
   if self.store then return end
   self.store = {on = false, list = {}}
   deferred.defer(self.submodule, self.store)
end

--- Computes the backward pass as backward_chunk does, but defers the gradients of linear layers'
--- parameters.
---@param chunk integer
---@param loss? Tensor
function Stage:input_chunk(chunk, loss)
   self.store.list = {}
   self.kept[chunk] = self.store.list
   self:backward_chunk(chunk, loss, true)
end

--- Computes the gradients that input_chunk has deferred.
---@param chunk integer
function Stage:weight_chunk(chunk)
   local list = self.kept[chunk]
   self.kept[chunk] = nil
   for i = 1, #list do list[i]() end
end

return Stage
