-- parallel.lua - splits GPT-2 over many processes: its layers over pipeline stages, its matrices
-- over tensor parallel ranks, and the batch over data parallel ranks. Each data parallel rank has
-- all parameters of its part of the model or, with --fsdp, a shard of these parameters.
local torch = require "tlua"
local nn, dist = torch.nn, torch.distributed
local styles, pipelining = dist.tensor.parallel, dist.pipelining

local Parallel = torch.class("gpt2.Parallel")

--- Arranges the ranks. o: device, tp, pp, fsdp, accumulate (the number of micro-batches in a
--- batch).
function Parallel:__init(o)
   if not dist.is_initialized() then dist.init_process_group() end
   local world = dist.get_world_size()
   local data = world // (o.tp * o.pp)
   assert(data * o.tp * o.pp == world, ("--tp %d times --pp %d does not divide the %d processes")
      :format(o.tp, o.pp, world))
   self.options = o
   self.mesh = dist.init_device_mesh(o.device:match "^%a+", {o.pp, data, o.tp},
      {mesh_dim_names = {"pp", "dp", "tp"}})
   self.first, self.last = self.mesh.pp:get_local_rank() == 0,
      self.mesh.pp:get_local_rank() == o.pp - 1
end

--- Returns the layers of a model that belong to this rank's stage of the pipeline.
function Parallel:part(model)
   local stages, o = self.options.pp, model.options
   assert(o.layers % stages == 0, ("--pp %d does not divide the %d layers"):format(stages,
      o.layers))
   return model:part(self.mesh.pp:get_local_rank(), stages)
end

-- Shards this rank's part of the model. The parameter groups of an optimizer must be made before
-- this call.
function Parallel:split(model)
   local o, mesh = self.options, self.mesh
   self.model = model
   if o.tp > 1 then
      assert(model.options.heads % o.tp == 0, ("--tp %d does not divide the %d heads"):format(o.tp,
         model.options.heads))
      styles.parallelize_module(model, mesh.tp, {
         ["blocks.*.qkv"] = styles.ColwiseParallel(),
         ["blocks.*.projection"] = styles.RowwiseParallel(),
         ["blocks.*.mlp.1"] = styles.ColwiseParallel(),
         ["blocks.*.mlp.3"] = styles.RowwiseParallel(),
      })
   end
   if o.fsdp then
      for _, block in ipairs(model.blocks) do dist.fsdp.fully_shard(block, {mesh = mesh.dp}) end
      self.trained = dist.fsdp.fully_shard(model, {mesh = mesh.dp})
   else
      self.trained = nn.parallel.DistributedDataParallel(model,
         {process_group = mesh.dp:get_group()})
   end
   if o.pp == 1 then return end
   local stage = pipelining.PipelineStage(self.trained, mesh.pp:get_local_rank(), o.pp, o.device,
      {group = mesh.pp:get_group()})
   self.schedule = pipelining.Schedule1F1B(stage, o.accumulate, {loss_fn = function(logits, y)
      return nn.functional.cross_entropy(logits:flatten(1, 2), y:flatten())
   end})
end

-- Returns this rank's share of the sequences of a batch.
local function mine(self, x)
   local n = x:size(1) // self.mesh.dp:size()
   return x:narrow(1, self.mesh.dp:get_local_rank() * n + 1, n)
end

--- Computes the losses of a batch, forward and backward. x and y (accumulate, batch, context) are
--- the same on all ranks. All ranks return the mean loss.
function Parallel:train(x, y)
   local o, losses = self.options, {}
   if self.schedule then
      local own_x, own_y = {}, {}
      for i = 1, o.accumulate do own_x[i], own_y[i] = mine(self, x[i]), mine(self, y[i]) end
      local given = {losses = losses, target = self.last and torch.cat(own_y) or nil}
      local batch = self.first and {torch.cat(own_x), given} or {given}
      self.schedule:step(table.unpack(batch))
   else
      for i = 1, o.accumulate do
         local loss = self.trained(mine(self, x[i]), mine(self, y[i])) / o.accumulate
         loss:backward()
         losses[i] = loss:detach() * o.accumulate
      end
   end
   local loss = self.last and torch.stack(losses):mean() or torch.zeros({}, {device = o.device})
   if self.last then dist.all_reduce(loss, "avg", self.mesh.dp:get_group()) end
   dist.all_reduce(loss, {group = self.mesh.pp:get_group()})
   return loss
end

--- Scales the gradients down so that their norm over all stages is at most `most`.
function Parallel:clip(most)
   local parameters = self.model:parameters()
   -- the limit is infinite, so this call only measures the norm
   local norm = nn.utils.clip_grad_norm_(parameters, math.huge) ^ 2
   dist.all_reduce(norm, {group = self.mesh.pp:get_group()})
   nn.utils.clip_grads_with_norm_(parameters, most, norm ^ 0.5)
end

return Parallel
