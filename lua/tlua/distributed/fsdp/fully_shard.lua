-- fully_shard.lua - shards parameters, gradients and optimizer state over the ranks. Each rank
-- keeps 1/N of all three, and gathers a block's parameters only to compute the block.
--
--    for _, block in ipairs(model.blocks) do fully_shard(block) end
--    fully_shard(model)                                   -- shards the remaining parameters
--    local optimizer = optim.AdamW(model:parameters())    -- made after sharding
--
-- "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel" (Zhao et al., 2023); "ZeRO:
-- Memory Optimizations Toward Training Trillion Parameter Models" (Rajbhandari et al., 2020): with
-- reshard_after_forward this is stage 3 of ZeRO, without it stage 2.
--
-- A unit is a sharded module with those parameters that belong to no sharded module below it. The
-- parameters of a unit form a row (Flat.lua). Before a unit's forward pass, its row and the next
-- unit's row, by the order of the previous pass, are gathered; afterwards the row is freed. Gates
-- around the unit's results and arguments do the same in the backward pass. Gradients are averaged
-- while the backward pass runs.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local agree = require "tlua.distributed.agree"
local device_mesh = require "tlua.distributed.device_mesh"
local groups = require "tlua.distributed.group"
local placement = require "tlua.distributed.placement"
local Flat = require "tlua.distributed.fsdp.Flat"
local policies = require "tlua.distributed.fsdp.policies"
local reset = require "tlua.distributed.fsdp.reset"
local Function = require "tlua.autograd.Function"
local Module = require "tlua.nn.modules.Module"

local M = {}

local units = setmetatable({}, {__mode = "k"}) -- maps each module to its Unit
-- maps each parameter of a sharded module to the parameter's path in the sharded module
local owners = setmetatable({}, {__mode = "k"})

---@class distributed.fsdp.Unit
---@field module nn.Module
---@field flats distributed.fsdp.Flat[]
local Unit = class.class("distributed.fsdp.Unit")

-- The state that all sharded modules of a model share. It is created in the first forward pass.
local Context = class.class("distributed.fsdp.Context")

function Context:__init(root)
   self.root, self.order, self.last_order, self.units = root, {}, {}, {}
   for _, module in ipairs(root.module:modules()) do
      local unit = units[module]
      if unit then
         self.units[#self.units + 1] = unit
         unit.context = self
      end
   end
end

--- Discards the state of a failed pass. Other ranks may still be in that pass, so this rank's later
--- calls get a new pass number.
function Context:reset()
   local seen = {}
   for _, unit in ipairs(self.units) do
      if not seen[unit.group] then unit.group.raw:next_pass() end
      seen[unit.group] = true
   end
   self.backward, self.running, self.reducing, self.order = false, false, nil, {}
   self.awaits = nil
   for _, unit in ipairs(self.units) do
      unit.open, unit.reduced = false, false
      for _, flat in ipairs(unit.flats) do flat:reset() end
   end
end

-- Rows of a unit -----------------------------------------------------------------------------

local function each(unit, method)
   for _, flat in ipairs(unit.flats) do flat[method](flat) end
end

local function finish_reduction(context)
   local unit = context.reducing
   context.reducing = nil
   if unit then each(unit, "finish") end
end

local function reduce(unit)
   local context = unit.context
   finish_reduction(context) -- only one reduction runs at a time, to bound memory
   for _, flat in ipairs(unit.flats) do
      if flat.grads then flat:reduce() end
      -- The counts begin again at 0, since more passes may follow a pass inside another backward
      -- pass.
      flat.seen, flat.arrived = nil, 0
   end
   unit.reduced = true
   context.reducing = unit
end

-- Returns whether the gradients of all parameters have been computed.
local function complete(unit)
   for _, flat in ipairs(unit.flats) do
      if flat.trained and flat.arrived < #flat.params then return false end
   end
   return true
end

local function settle(unit)
   each(unit, "take_back")
   if unit.reshard_after_backward then each(unit, "free") end
   unit.open = false
end

-- A backward pass ------------------------------------------------------------------------------

-- Ends the backward pass: reduces gradients that no hook has reduced yet.
local function end_backward(context)
   if not context.backward then return end
   for _, unit in ipairs(context.units) do
      if unit.open then settle(unit) end
      local some = false
      for _, flat in ipairs(unit.flats) do some = some or flat.grads ~= nil end
      if some and unit.sync then reduce(unit) end
   end
   finish_reduction(context)
   for _, unit in ipairs(context.units) do
      unit.reduced, unit.before = false, nil
      each(unit, unit.reshard_after_backward and "free" or "take_back")
      for _, flat in ipairs(unit.flats) do flat.seen, flat.arrived = nil, 0 end
   end
   context.backward, context.awaits = false, nil
end

local function begin_backward(context)
   if context.backward then return end
   context.backward = true
   torch.autograd.queue_callback(function() end_backward(context) end)
end

-- Prepares the backward pass of a sharded module when the gradients of its results are known.
-- Gathers the module's parameters, which are needed now, and the parameters of the preceding
-- sharded module, which are needed next.
local function enter_backward(unit)
   local context = unit.context
   begin_backward(context)
   if not unit.open then
      unit.open, unit.passed, unit.reduced = true, false, false
      each(unit, "gather")
   end
   for _, other in ipairs(unit.backward_prefetch or {unit.before}) do
      if other ~= context.root and not other.open then each(other, "gather") end
   end
   each(unit, "lend")
end

-- Is called when the gradients of a sharded module's arguments are known, which ends the module's
-- backward pass.
local function leave_backward(unit)
   unit.passed = true
   if unit.open and (unit.reduced or complete(unit)) then settle(unit) end
end

-- Is called when the gradient of parameter i of a unit's row was computed.
local function arrived(unit, flat, i)
   -- the gradient belongs to the shard itself, and comes from the user's own code
   if not flat.lent then return end
   if not flat:collect(i) or not complete(unit) then return end
   if unit.sync then reduce(unit) end
   if unit.open and (unit.passed or not unit.gated) then settle(unit) end
end

-- Gates are identity functions with backward passes that run when gradients arrive. An Enter gate
-- around a unit's results begins the unit's backward pass.
local Enter = class.class("fully_shard.Backward", Function)

function Enter.forward(ctx, unit, ...)
   ctx.unit = unit
   ctx:set_materialize_grads(false)
   return ...
end

function Enter.backward(ctx, ...)
   enter_backward(ctx.unit)
   return nil, ...
end

local Leave = class.class("fully_shard.BackwardEnd", Function)

function Leave.forward(ctx, unit, ...)
   ctx.unit = unit
   ctx:set_materialize_grads(false)
   return ...
end

function Leave.backward(ctx, ...)
   leave_backward(ctx.unit)
   return nil, ...
end

-- Passes all tensors in `values` that require gradients, also in tables, through a gate. Returns
-- the values with the gate's results in place of these tensors, and whether there were such
-- tensors.
local function lead(gate, unit, values)
   local found = {}
   local function look(value)
      if torch.is_tensor(value) then
         if value.requires_grad then found[#found + 1] = value end
      elseif type(value) == "table" and not getmetatable(value) then
         for _, item in pairs(value) do look(item) end
      end
   end
   for i = 1, values.n do look(values[i]) end
   if #found == 0 then return values, false end
   local led, new = table.pack(gate:apply(unit, table.unpack(found))), {}
   for i, tensor in ipairs(found) do new[tensor] = led[i] end
   local function put(value)
      if torch.is_tensor(value) then return new[value] or value end
      if type(value) ~= "table" or getmetatable(value) then return value end
      local copy = {}
      for key, item in pairs(value) do copy[key] = put(item) end
      return copy
   end
   local result = {n = values.n}
   for i = 1, values.n do result[i] = put(values[i]) end
   return result, true
end

-- A forward pass -------------------------------------------------------------------------------

-- Casts a value's floating-point tensors. The value may be a table of tensors, such as the state of
-- an LSTM.
local function cast(value, dtype)
   if torch.is_tensor(value) then
      return value:is_floating_point() and value:to(dtype) or value
   end
   if type(value) ~= "table" or getmetatable(value) then return value end
   local copy = {}
   for key, item in pairs(value) do copy[key] = cast(item, dtype) end
   return copy
end

local function cast_all(values, dtype)
   for i = 1, values.n do values[i] = cast(values[i], dtype) end
end

-- Raises an error if a module's own parameter is shared with a sharded module below the module.
local function check_tied(module, ignored)
   local kept, inside = {}, {}
   for _, p in ipairs(ignored or {}) do kept[p] = true end
   for _, other in ipairs(module:modules()) do
      for _, part in ipairs(units[other] and other:modules() or {}) do inside[part] = true end
   end
   for path, part in module:named_modules() do
      for name, p in part:named_parameters() do
         local own = not inside[part] and not name:find(".", 1, true)
         if own and owners[p] and not kept[p] then
            torch.raise(("fully_shard: parameter %s is tied to %s of a module that is " ..
               "sharded already; shard a module that has both, or give it in ignored_params")
               :format(path == "" and name or path .. "." .. name, owners[p]))
         end
      end
   end
end

-- Returns the outermost module that is being called, which it finds on the call stack. Returns nil
-- without Lua's debug library.
local function called()
   local found
   for level = 2, math.maxinteger do
      local frame = debug and debug.getinfo(level, "S")
      if not frame then return found end
      if frame.source == "=tlua:nn/modules/Module.lua" then
         local name, value = debug.getlocal(level, 1)
         if name == "self" and class.isinstance(value, Module) then found = value end
      end
   end
end

-- Returns the context of a sharded module. Unless the module has one, it becomes the root of a new
-- context. The root may be a part of a larger model, which is known only when it is called; then
-- the parameters of the larger model are checked.
local function context_of(unit)
   if not unit.context then
      local model = called()
      if model and model ~= unit.module then check_tied(model) end
      Context(unit)
   end
   return unit.context
end

-- Begins to gather the parameters of the sharded modules that the user has chosen for prefetching.
-- If the user has chosen none, gathers the sharded module that followed this one in the previous
-- pass.
local function prefetch(context, unit)
   if unit.forward_prefetch then
      for _, other in ipairs(unit.forward_prefetch) do each(other, "gather") end
      return
   end
   local n = #context.order
   if context.last_order[n] ~= context.order[n] then return end
   local after = context.last_order[n + 1]
   if after then each(after, "gather") end
end

local function enter_forward(unit, ...)
   local context = context_of(unit)
   local inputs = table.pack(...)
   local failed = context.backward and not torch.autograd._is_running()
   if failed then context:reset() end
   -- In a backward pass, this forward pass is a recomputation by an activation checkpoint.
   if context.backward then
      unit.open = true
      each(unit, "lend")
   else
      if unit == context.root then
         local failures = torch.autograd._failures()
         -- whether the previous backward pass has failed
         local lost = context.awaits and context.awaits ~= failures
         -- context.running is still set if the previous forward pass has failed
         if context.running or lost then context:reset() end
         context.running, context.order = true, {}
         if torch.is_grad_enabled() then context.awaits = failures end
         for _, other in ipairs(context.units) do each(other, "check") end
      end
      table.insert(context.order, unit)
      each(unit, "gather")
      prefetch(context, unit)
      each(unit, "lend")
   end
   local policy = unit.policy
   if policy.param_dtype and policy.cast_forward_inputs then
      cast_all(inputs, policy.param_dtype)
   end
   unit.gated, unit.passed = false, false
   if torch.is_grad_enabled() then inputs, unit.gated = lead(Leave, unit, inputs) end
   return table.unpack(inputs, 1, inputs.n)
end

local function leave_forward(unit, ...)
   local context = unit.context
   local results = table.pack(...)
   if unit.policy.output_dtype then cast_all(results, unit.policy.output_dtype) end
   if torch.is_grad_enabled() then results = lead(Enter, unit, results) end
   if not context.backward then
      each(unit, "take_back")
      local order = context.order
      local last = order[#order]
      -- `last` is this module itself, unless sharded modules below it have run since
      unit.before = last == unit and order[#order - 1] or last
      local reshard = unit.reshard_after_forward
      if reshard == nil then reshard = unit ~= context.root end
      if reshard then each(unit, "free") end
      if unit == context.root then
         context.running = false
         context.last_order = context.order
         for _, other in ipairs(context.units) do each(other, "forget") end
         if not torch.is_grad_enabled() then
            for _, other in ipairs(context.units) do each(other, "free") end
         end
      end
   end
   return table.unpack(results, 1, results.n)
end

-- A unit ----------------------------------------------------------------------------------------

-- Returns lists of a module's parameters, one list for each dtype. Frozen parameters are in
-- separate lists. Ignored parameters, and those of a sharded module below the module, are left out.
local function sort_out(module, ignored)
   check_tied(module, ignored)
   local below = {}
   for _, p in ipairs(ignored or {}) do below[p] = true end
   for _, other in ipairs(module:modules()) do
      if units[other] then
         for _, p in ipairs(other:parameters()) do below[p] = true end
      end
   end
   local lists, order = {}, {}
   for path, p in module:named_parameters() do
      if not below[p] then
         local key = ("%s %s"):format(p.dtype, p.requires_grad)
         if not lists[key] then
            lists[key] = {params = {}, paths = {}}
            order[#order + 1] = key
         end
         table.insert(lists[key].params, p)
         table.insert(lists[key].paths, path)
      end
   end
   local sorted, items = {}, {}
   for i, key in ipairs(order) do
      sorted[i] = lists[key]
      for k, p in ipairs(lists[key].params) do
         items[#items + 1] = ("%s (%s, %s%s)"):format(lists[key].paths[k],
            table.concat(p.shape, "x"), p.dtype, p.requires_grad and "" or ", frozen")
      end
   end
   return sorted, items
end

function Unit:__init(module, fields)
   for name, value in pairs(fields) do self[name] = value end
   self.module, self.flats, self.sync, self.reshard_after_backward = module, {}, true, true
   self.all_reduce = true
   local sorted, items = sort_out(module, self.ignored)
   agree("fully_shard", "parameter", self.group, items)
   for i, list in ipairs(sorted) do
      local flat = Flat(self, list.params, list.paths)
      self.flats[i] = flat
      if flat.trained then
         for k, p in ipairs(flat.params) do
            p:register_post_accumulate_grad_hook(function() arrived(self, flat, k) end)
         end
      end
   end
end

-- Methods added to a sharded module. With `recurse` (true by default) a method also applies to the
-- sharded modules below the module.
local methods = {}

local function units_of(module, recurse)
   local list = {}
   for _, other in ipairs(recurse == false and {module} or module:modules()) do
      if units[other] then list[#list + 1] = units[other] end
   end
   return list
end

local function set(module, recurse, option, field, value)
   if type(value) ~= "boolean" then args.refuse("set_" .. option, option, "a boolean", value) end
   for _, unit in ipairs(units_of(module, recurse)) do unit[field] = value end
end

--- Sets whether backward passes average gradients. If not, each rank accumulates whole local
--- gradients until a pass that averages them. Programs turn averaging off for all but the last of
--- several passes that make one step.
function methods.set_requires_gradient_sync(module, sync, recurse)
   set(module, recurse, "requires_gradient_sync", "sync", sync)
end

--- Sets whether the gathered parameters are freed after the forward pass.
function methods.set_reshard_after_forward(module, reshard, recurse)
   set(module, recurse, "reshard_after_forward", "reshard_after_forward", reshard)
end

--- Sets whether gathered parameters are freed after the backward pass, which is the default. If
--- they are kept, the next forward pass gathers parameters again only if they have changed. That
--- saves time when several passes make one step, and costs the memory of the gathered parameters.
function methods.set_reshard_after_backward(module, reshard, recurse)
   set(module, recurse, "reshard_after_backward", "reshard_after_backward", reshard)
end

--- For a mesh of two dimensions, sets whether gradients are averaged over the ranks that have the
--- same shards; they are by default. If not, this rank's shard of the averages over the other
--- dimension is accumulated outside of .grad, until a pass that averages over both dimensions.
function methods.set_requires_all_reduce(module, all_reduce, recurse)
   set(module, recurse, "requires_all_reduce", "all_reduce", all_reduce)
end

--- Has no effect: every backward pass that averages gradients waits for the averages before it
--- ends.
function methods.set_is_last_backward(_, is_last_backward)
   if type(is_last_backward) ~= "boolean" then
      args.refuse("set_is_last_backward", "is_last_backward", "a boolean", is_last_backward)
   end
end

--- Sets the divisor by which the sum of all ranks' gradients of the module's own parameters is
--- divided. The default is the number of ranks.
function methods.set_gradient_divide_factor(module, factor)
   if type(factor) ~= "number" or factor <= 0 or factor ~= factor then
      args.refuse("set_gradient_divide_factor", "factor", "a number above 0", factor)
   end
   units[module].divide_factor = factor
end

--- Sets hook(tensor). The hook gets this rank's shard of the averaged gradients of the module's own
--- parameters, as a one-dimensional tensor, before the shard is added to .grad. The hook may change
--- the tensor. nil removes the hook.
function methods.set_all_reduce_hook(module, hook)
   if hook ~= nil and type(hook) ~= "function" then
      args.refuse("set_all_reduce_hook", "hook", "a function", hook)
   end
   units[module].all_reduce_hook = hook
end

local function set_prefetch(module, field, modules)
   local name, list = ("set_modules_to_%s"):format(field), {}
   if type(modules) ~= "table" or getmetatable(modules) then
      args.refuse(name, "modules", "a list of modules", modules)
   end
   for i, other in ipairs(modules) do
      list[i] = units[other]
      if not list[i] then
         args.refuse(name, ("modules[%d]"):format(i), "a module that fully_shard has shared out",
            other)
      end
   end
   units[module][field] = #list > 0 and list or nil
end

--- Sets the modules whose parameters are gathered while this module computes its forward pass. The
--- modules must be the same on all ranks. The default is the module that followed in the previous
--- pass; an empty list restores the default.
function methods.set_modules_to_forward_prefetch(module, modules)
   set_prefetch(module, "forward_prefetch", modules)
end

--- Sets the modules whose parameters are gathered while this module computes its backward pass. The
--- default is the module that preceded this module in the forward pass.
function methods.set_modules_to_backward_prefetch(module, modules)
   set_prefetch(module, "backward_prefetch", modules)
end

local Handle = class.class("distributed.fsdp.UnshardHandle")

--- Waits until the parameters, which `unshard` has begun to gather, are gathered.
function Handle:wait()
   if self.unit then each(self.unit, "lend") end
   self.unit = nil
end

--- Gathers the module's own parameters until `reshard` is called. Changes to the gathered values
--- are discarded. With async_op the call returns at once, and the parameters are whole once the
--- handle's wait returns or the module computes.
---@param async_op? boolean
---@return distributed.fsdp.UnshardHandle?
function methods.unshard(module, async_op)
   if async_op ~= nil and type(async_op) ~= "boolean" then
      args.refuse("unshard", "async_op", "a boolean", async_op)
   end
   each(units[module], "gather")
   local handle = Handle()
   handle.unit = units[module]
   if async_op then return handle end
   handle:wait()
end

--- Frees the gathered values of the module's own parameters, which become this rank's shards again.
function methods.reshard(module)
   each(units[module], "free")
end

-- fully_shard -----------------------------------------------------------------------------------

local function group_of(mesh)
   if mesh == nil or mesh.ndim ~= 2 then return device_mesh.group_of("fully_shard", mesh) end
   return mesh:get_group(2), mesh:get_group(1)
end

local take = args.signature [[fully_shard(module: any, mesh: object?,
   reshard_after_forward: boolean?, mp_policy: object?, offload_policy: object?,
   ignored_params: table?)]]

--- Shards a module's parameters over the ranks of a mesh (all ranks by default), except the
--- parameters of modules below it that are sharded already. All ranks must have equal parameters
--- beforehand. Afterwards each parameter is this rank's shard, in one dimension. Optimizers must be
--- made after this call. Elementwise optimizers work unchanged, Muon gathers its momenta, and
--- Adafactor, LBFGS and SparseAdam refuse shards. The options are:
--- * mesh: a mesh of two dimensions shards along the second and replicates along the first.
--- * reshard_after_forward: whether the gathered parameters are freed after the forward pass and
---   gathered again for the backward pass; by default true, except for the root.
--- * mp_policy, offload_policy: see MixedPrecisionPolicy and CPUOffloadPolicy.
--- * ignored_params: parameters that are not sharded.
---
--- A model on the meta device is sharded without memory. to_empty then allocates this rank's
--- shards, and a checkpoint or reset_parameters fills them. All ranks must call a layer's
--- reset_parameters, which draws the values of the whole layer with rank 0's generator; a layer
--- that tensor parallelism has split refuses it. The module gets the methods unshard, reshard,
--- set_requires_gradient_sync, set_requires_all_reduce, set_reshard_after_forward,
--- set_reshard_after_backward, set_modules_to_forward_prefetch, set_modules_to_backward_prefetch,
--- set_gradient_divide_factor, set_all_reduce_hook and set_is_last_backward.
---@param module nn.Module
---@param options? table  mesh, reshard_after_forward, mp_policy, offload_policy, ignored_params
---@return nn.Module module
function M.fully_shard(...)
   local a = take(...)
   local module = a.module
   if not class.isinstance(module, Module) then
      args.refuse("fully_shard", "module", "a module", module)
   end
   if units[module] then torch.raise("fully_shard: module: it is sharded already") end
   policies.check("fully_shard", a)
   if a.mesh and not class.isinstance(a.mesh, device_mesh.DeviceMesh) then
      args.refuse("fully_shard", "mesh", "a mesh (see init_device_mesh)", a.mesh)
   end
   local group, replicas = group_of(a.mesh)
   if group == groups.GroupMember.NON_GROUP_MEMBER or group == nil then
      torch.raise "fully_shard: mesh: this rank is not in it"
   end
   for path, p in module:named_parameters() do
      if p.grad_fn or not p.is_leaf then
         torch.raise(("fully_shard: parameter %s is the result of an operator"):format(path))
      end
   end
   local first = module:parameters()[1]
   local device = first and first.device or "cpu"
   units[module] = Unit(module, {
      group = group, replicas = replicas, ignored = a.ignored_params,
      policy = a.mp_policy or policies.MixedPrecisionPolicy(),
      device = device,
      shard_device = a.offload_policy and not (first and first.is_meta) and "cpu" or device,
      compute_device = a.offload_policy and a.mesh and a.mesh.device_type or nil,
      reshard_after_forward = a.reshard_after_forward,
   })
   local unit, ignored = units[module], {}
   for _, p in ipairs(a.ignored_params or {}) do ignored[p] = true end
   for path, p in module:named_parameters() do
      if not ignored[p] then owners[p] = owners[p] or path end
   end
   module:register_forward_pre_hook(function(_, ...) return enter_forward(unit, ...) end)
   module:register_forward_hook(function(_, _, ...) return leave_forward(unit, ...) end)
   for name, method in pairs(methods) do rawset(module, name, method) end
   reset.watch(module, unit.flats)
   return module
end

--- Makes a method of a sharded module other than `forward`, such as "generate", gather the module's
--- parameters while it computes. Does nothing for modules that are not sharded.
---@param module nn.Module
---@param method_name string
function M.register_fsdp_forward_method(module, method_name)
   local title <const> = "register_fsdp_forward_method"
   if not class.isinstance(module, Module) then args.refuse(title, "module", "a module", module) end
   local method = type(method_name) == "string" and module[method_name]
   if type(method) ~= "function" then
      args.refuse(title, "method_name", "the name of a method of the module", method_name)
   end
   local unit = units[module]
   if not unit then return end
   rawset(module, method_name, function(self, ...)
      return leave_forward(unit, method(self, enter_forward(unit, ...)))
   end)
end

--- Returns the whole of a parameter that is split over ranks by fully_shard or tensor parallelism,
--- or of a tensor that is split like the parameter: its gradient or an optimizer's state. All ranks
--- that have parts must call the function.
---@param parameter Tensor
---@param tensor? Tensor  the parameter itself by default
---@return Tensor
function M.full_tensor(parameter, tensor)
   if not torch.is_tensor(parameter) then
      args.refuse("full_tensor", "parameter", "a tensor", parameter)
   end
   return placement.full(parameter, tensor)
end

return M
