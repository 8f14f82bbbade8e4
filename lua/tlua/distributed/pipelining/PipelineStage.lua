-- PipelineStage.lua - a part of a model on one rank: it gets activations from the stage before,
-- gives its own to the stage after, and gradients the other way.
--
-- Before the first part of a batch the shapes and dtypes of what comes are sent, or what keeps it
-- from coming, which every stage passes on. Sends never wait, so ranks only wait for what they
-- need.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local deferred = require "tlua.distributed.pipelining.deferred"
local groups = require "tlua.distributed.group"
local DDP = require "tlua.distributed.DistributedDataParallel"
local Module = require "tlua.nn.Module"

---@class distributed.pipelining.PipelineStage
---@field submodule nn.Module
---@field stage_index integer
---@field num_stages integer
---@field is_first boolean
---@field is_last boolean
---@overload fun(submodule: nn.Module, stage_index: integer, num_stages: integer, device?: string,
---@     options?: table): distributed.pipelining.PipelineStage
local Stage = class.class("distributed.pipelining.PipelineStage")

local take = args.signature [[PipelineStage(submodule: any, stage_index: count, num_stages: count,
   device: string?, input_args: any?, group: object?)]]

-- {shape, dtype} of each of the tensors.
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

--- Stages are numbered from 0, and stage i is on rank i % N of the group's N ranks, all by default.
--- device: where activations are received, that of the parameters by default. input_args: a tensor,
--- or a list, of the shapes and dtypes that this stage gets for a part of the batch; where all
--- stages know theirs, none tells the next one, nor that it has failed. Else the first part does.
---@param submodule nn.Module
---@param stage_index integer
---@param num_stages integer
---@param device? string
---@param options? {device: string, input_args: Tensor|Tensor[], group: distributed.ProcessGroup}
function Stage:__init(...)
   local a = take(...)
   local name <const> = "PipelineStage"
   if not class.isinstance(a.submodule, Module) then
      args.refuse(name, "submodule", "a module", a.submodule)
   end
   local group = groups.resolve(name, a.group)
   if not group then torch.raise(name .. ": group: this rank is not of it") end
   local ranks = #group.ranks
   if a.num_stages < 1 or a.num_stages % ranks ~= 0 then
      args.refuse(name, "num_stages", ("a multiple of the group's %d ranks"):format(ranks),
         a.num_stages)
   end
   if a.stage_index >= a.num_stages then
      args.refuse(name, "stage_index", ("0 to %d"):format(a.num_stages - 1), a.stage_index)
   end
   if a.stage_index % ranks ~= group.group_rank then
      torch.raise(("%s: stage_index: stage %d is on rank %d of the group, this is rank %d"):format(
         name, a.stage_index, a.stage_index % ranks, group.group_rank))
   end
   local first = a.submodule:parameters()[1]
   self.submodule, self.stage_index, self.num_stages = a.submodule, a.stage_index, a.num_stages
   self.group, self.device = group, a.device or first and first.device or "cpu"
   self.is_first, self.is_last = a.stage_index == 0, a.stage_index == a.num_stages - 1
   self.chunks, self.works, self.local_messages = {}, {}, {}
   if a.input_args ~= nil then self.known = shapes_of(a.input_args) end
end

-- Messages ---------------------------------------------------------------------------------------

local forward <const>, backward <const> = 0, 1

-- Stages of one rank hand things on by a table that the schedule gives them.
local function peer(self, stage) return self.group.ranks[stage % #self.group.ranks + 1] end

local function tag(stage, direction, chunk, k)
   return ((stage * 2 + direction) * 4096 + chunk) * 64 + k
end

local function send(self, tensor, stage, number)
   local to = peer(self, stage)
   if to == torch.distributed.get_rank() then
      self.mail[number] = tensor
      return
   end
   self.works[#self.works + 1] = torch.distributed.isend(tensor:contiguous(), to,
      {group = self.group, tag = number})
end

local function receive(self, like, stage, number)
   local from = peer(self, stage)
   if from == torch.distributed.get_rank() then
      local tensor = self.mail[number]
      self.mail[number] = nil
      return tensor
   end
   local tensor = torch.empty(like.shape, {dtype = like.dtype, device = self.device})
   torch.distributed.recv(tensor, from, {group = self.group, tag = number})
   return tensor
end

local function send_note(self, note, stage)
   local to, number = peer(self, stage), tag(stage, forward, 0, 0)
   if to == torch.distributed.get_rank() then
      self.mail[number] = note
   else
      torch.distributed.send_object_list({note}, to, {group = self.group, tag = number})
   end
end

local function receive_note(self)
   local from, number = peer(self, self.stage_index - 1), tag(self.stage_index, forward, 0, 0)
   if from == torch.distributed.get_rank() then
      local note = self.mail[number]
      self.mail[number] = nil
      return note
   end
   local list = {}
   torch.distributed.recv_object_list(list, from, {group = self.group, tag = number})
   return list[1]
end

-- A step -----------------------------------------------------------------------------------------

--- To be called before the first part of a batch. mail: what stages of this rank give each other.
function Stage:begin(mail)
   self.chunks, self.works, self.mail, self.kept = {}, {}, mail, {}
   self.expected = self.known
end

--- Tells the stages that follow that nothing will come.
function Stage:fail(message)
   if self.is_last or self.known then return end
   send_note(self, {failed = message}, self.stage_index + 1)
end

-- What comes from the stage before, for a part of the batch.
local function inputs_of(self, chunk)
   if not self.expected then
      local note = receive_note(self)
      if note.failed then
         self:fail(note.failed)
         torch.raise(note.failed)
      end
      self.expected = note.tensors
   end
   local inputs = {n = #self.expected}
   for k, like in ipairs(self.expected) do
      local input = receive(self, like, self.stage_index - 1,
         tag(self.stage_index, forward, chunk, k)):detach()
      if input:is_floating_point() and torch.is_grad_enabled() then input:requires_grad_() end
      inputs[k] = input
   end
   return inputs
end

local function pass_on(self, chunk, outputs)
   if chunk == 1 then
      local note = {}
      for k = 1, outputs.n do
         if not torch.is_tensor(outputs[k]) then
            local message = ("PipelineStage: stage %d: result %d: expected a tensor, got %s")
               :format(self.stage_index, k, args.describe(outputs[k]))
            self:fail(message)
            torch.raise(message)
         end
         note[k] = {shape = table.move(outputs[k].shape, 1, outputs[k]:dim(), 1, {}),
            dtype = outputs[k].dtype}
      end
      if not self.known then send_note(self, {tensors = note}, self.stage_index + 1) end
   end
   for k = 1, outputs.n do
      send(self, outputs[k]:detach(), self.stage_index + 1,
         tag(self.stage_index + 1, forward, chunk, k))
   end
end

--- Computes a part of the batch and passes it on. Where the first one fails, the stages that follow
--- are told.
---@param chunk integer
---@param inputs any[]  of the first stage, with `n`
---@return table outputs  with `n`
function Stage:forward_chunk(chunk, inputs)
   inputs = self.is_first and inputs or inputs_of(self, chunk)
   local outputs
   if chunk == 1 then
      outputs = table.pack(pcall(self.submodule, table.unpack(inputs, 1, inputs.n)))
      if not outputs[1] then
         self:fail(("PipelineStage: stage %d: %s"):format(self.stage_index, tostring(outputs[2])))
         error(outputs[2], 0)
      end
      table.remove(outputs, 1)
      outputs.n = outputs.n - 1
   else
      outputs = table.pack(self.submodule(table.unpack(inputs, 1, inputs.n)))
   end
   if not self.is_last then pass_on(self, chunk, outputs) end
   self.chunks[chunk] = {inputs = inputs, outputs = outputs}
   return outputs
end

-- Gradients are averaged over other ranks in the last of a step's backward passes.
local function set_sync(self, sync)
   local module = self.submodule
   if class.isinstance(module, DDP) then
      rawset(module, "sync", sync)
   elseif rawget(module, "set_requires_gradient_sync") then
      module:set_requires_gradient_sync(sync)
   end
end

--- The backward pass of a part of the batch: of `loss` on the last stage, elsewhere of the
--- gradients that come from the stage after. Sends those of the arguments to the stage before.
---@param chunk integer
---@param loss? Tensor
---@param last boolean  whether it is the last of the step
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
            local grad = receive(self, output, self.stage_index + 1,
               tag(self.stage_index, backward, chunk, k))
            if output.requires_grad then roots[#roots + 1], grads[#grads + 1] = output, grad end
         end
      end
      if #roots > 0 then torch.autograd.backward(roots, grads) end
   end
   set_sync(self, true)
   if self.is_first then return end
   for k = 1, c.inputs.n do
      local input = c.inputs[k]
      if input:is_floating_point() then
         send(self, input.grad or torch.zeros_like(input), self.stage_index - 1,
            tag(self.stage_index - 1, backward, chunk, k))
      end
   end
end

--- Lets linear layers keep the gradients of their parameters for weight_chunk. Where these are to
--- be averaged as they come, that is refused.
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

--- backward_chunk without the gradients of linear layers' parameters.
---@param chunk integer
---@param loss? Tensor
function Stage:input_chunk(chunk, loss)
   self.store.list = {}
   self.kept[chunk] = self.store.list
   self:backward_chunk(chunk, loss, true)
end

--- What input_chunk has left out.
---@param chunk integer
function Stage:weight_chunk(chunk)
   local list = self.kept[chunk]
   self.kept[chunk] = nil
   for i = 1, #list do list[i]() end
end

--- All that was sent has arrived when this returns.
function Stage:finish()
   for _, work in ipairs(self.works) do work:wait() end
   self.works, self.chunks = {}, {}
end

return Stage
