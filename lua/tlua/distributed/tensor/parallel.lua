-- parallel.lua - torch.distributed.tensor.parallel: layers that all ranks of a group compute
-- together, each with a part of the weight matrix.
--
--    parallelize_module(block, mesh.tp, {
--       ["attention.qkv"] = ColwiseParallel(), ["attention.projection"] = RowwiseParallel(),
--       ["mlp.1"] = ColwiseParallel(), ["mlp.3"] = RowwiseParallel(),
--    })
--
-- A column-parallel layer gives each rank a part of the results, and a row-parallel layer takes
-- such parts, so that the pair communicates activations only once. Parameters stay the same
-- tensors; their data become this rank's part. Computations between the two layers see only the
-- rank's share of the heads or of the width, so they should take their sizes from their inputs.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local agree = require "tlua.distributed.agree"
local device_mesh = require "tlua.distributed.device_mesh"
local layouts = require "tlua.distributed.tensor.layouts"
local losses = require "tlua.distributed.tensor.losses"
local placement = require "tlua.distributed.placement"
local F = require "tlua.nn.functional"
local Embedding = require "tlua.nn.modules.Embedding"
local Linear = require "tlua.nn.modules.Linear"
local Module = require "tlua.nn.modules.Module"

local M = {}

local Shard, Replicate = layouts.Shard, layouts.Replicate

local function layout(title, what, value, otherwise)
   if value == nil then return otherwise end
   if not layouts.is_layout(value) then
      args.refuse(title, what, "a layout: Shard(dim) or Replicate()", value)
   end
   return value
end

local function is_shard(value) return class.isinstance(value, Shard) end

-- Parameters -------------------------------------------------------------------------------------

-- Replaces a parameter's data by this rank's part, along a dimension, of the values that rank 0
-- has.
local function split_parameter(title, path, parameter, dim, group)
   local n, size = #group.ranks, parameter:size(dim)
   if placement.get(parameter) then
      torch.raise(("%s: %s is split already"):format(title, path))
   end
   if size % n ~= 0 then
      torch.raise(("%s: dimension %d of %s, of size %d, cannot be split over %d ranks"):format(
         title, dim, path, size, n))
   end
   local _ <close> = torch.no_grad()
   local whole = parameter:detach():contiguous()
   group:run("broadcast", {outputs = whole})
   parameter.grad = nil
   parameter.data = whole:narrow(dim, group.group_rank * (size // n) + 1, size // n):clone()
   placement.split(parameter, dim, group.group_rank, n, group)
end

-- Makes a layer's method reset_parameters raise an error, since the parameters are split.
local function refuse_reset(module, path)
   rawset(module, "reset_parameters", function() placement.refuse_reset(path) end)
end

-- Sums the gradients of a parameter that all ranks have over the ranks, since each rank computes
-- its gradient from a different part of the sequence.
local function sum_gradients(parameter, group)
   if not parameter.requires_grad then return end
   parameter:register_hook(function(grad)
      local whole = grad:clone():contiguous()
      group:run("all_reduce", {outputs = whole, op = "sum"})
      return whole
   end)
end

-- Makes a module call `before` before its forward method and `after` after it.
local function wrap(module, before, after)
   local inner = module.forward
   rawset(module, "forward", function(self, input, ...)
      return after(inner(self, before(input), ...))
   end)
end

local function pass(x) return x end

-- Styles -----------------------------------------------------------------------------------------

--- The base of styles. A style says how parallelize_module changes one module.
---
---     local parallel = torch.distributed.tensor.parallel
---     local style = parallel.ColwiseParallel()
---     print(torch.isinstance(style, parallel.ParallelStyle))
---     --> true
---@class distributed.tensor.ParallelStyle
---@field apply fun(self, module: nn.Module, path: string, group: distributed.ProcessGroup)
--- changes a module, for parallelize_module; group: the ranks of the mesh
M.ParallelStyle = class.class("distributed.tensor.ParallelStyle")

local function expect(style, module, path)
   if class.isinstance(module, Linear) or class.isinstance(module, Embedding) then return end
   torch.raise(("parallelize_module: %s: %s takes nn.Linear and nn.Embedding, got %s"):format(path,
      torch.type(style):match "[^.]*$", torch.type(module)))
end

local take_colwise = args.signature [[ColwiseParallel(input_layouts: object?,
   output_layouts: object?)]]

--- Splits the rows of a Linear's weight, so that results are split too, or the columns of an
--- Embedding's weight. input_layouts: the layout of the argument, Replicate() by default;
--- output_layouts: the layout of the result, Shard(-1) by default.
---
---     local dist, nn = torch.distributed, torch.nn
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local mesh = dist.init_device_mesh("cpu", {1})
---     local parallel = dist.tensor.parallel
---     local model = nn.Sequential(nn.Linear(4, 6))
---     local styles = {["1"] = parallel.ColwiseParallel()}
---     parallel.parallelize_module(model, mesh, styles)
---     print(model(torch.ones(2, 3, 4)).shape)
---     dist.destroy_process_group()
---     --> torch.Size([2, 3, 6])
---@class distributed.tensor.ColwiseParallel: distributed.tensor.ParallelStyle
---@overload fun(options?: table): distributed.tensor.ColwiseParallel
M.ColwiseParallel = class.class("distributed.tensor.ColwiseParallel", M.ParallelStyle)

function M.ColwiseParallel:__init(...)
   local a = take_colwise(...)
   self.input = layout("ColwiseParallel", "input_layouts", a.input_layouts, Replicate())
   self.output = layout("ColwiseParallel", "output_layouts", a.output_layouts, Shard(-1))
end

-- Returns whether a layout is Shard(-1), the layout in which a ColwiseParallel layer computes its
-- result.
local function last(value) return is_shard(value) and value.dim == -1 end

function M.ColwiseParallel:apply(module, path, group)
   expect(self, module, path)
   local title, linear = "ColwiseParallel", class.isinstance(module, Linear)
   split_parameter(title, path .. ".weight", module.weight, linear and 1 or 2, group)
   if linear and module.bias then
      split_parameter(title, path .. ".bias", module.bias, 1, group)
   end
   refuse_reset(module, path)
   local input, output = self.input, self.output
   local function before(x)
      if not linear then return x end
      if is_shard(input) then return layouts.move(x, "gather_sum", input.dim, group) end
      return layouts.move(x, "copy", nil, group)
   end
   local function after(y)
      if last(output) then return y end
      y = layouts.move(y, "gather", -1, group)
      return is_shard(output) and layouts.move(y, "split", output.dim, group) or y
   end
   wrap(module, before, after)
end

local take_rowwise = args.signature [[RowwiseParallel(input_layouts: object?,
   output_layouts: object?)]]

--- Splits the columns of a Linear's weight, so that arguments are split too, or the rows (the
--- vocabulary) of an Embedding's weight. The ranks' results are summed. input_layouts: Shard(-1) by
--- default, Replicate() for an Embedding; output_layouts: Replicate() by default; with Shard(dim)
--- each rank gets that part of the sum.
---
---     local dist, nn = torch.distributed, torch.nn
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local mesh = dist.init_device_mesh("cpu", {1})
---     local parallel = dist.tensor.parallel
---     local model = nn.Sequential(nn.Linear(4, 6))
---     local styles = {["1"] = parallel.RowwiseParallel()}
---     parallel.parallelize_module(model, mesh, styles)
---     print(model(torch.ones(2, 3, 4)).shape)
---     dist.destroy_process_group()
---     --> torch.Size([2, 3, 6])
---@class distributed.tensor.RowwiseParallel: distributed.tensor.ParallelStyle
---@overload fun(options?: table): distributed.tensor.RowwiseParallel
M.RowwiseParallel = class.class("distributed.tensor.RowwiseParallel", M.ParallelStyle)

function M.RowwiseParallel:__init(...)
   local a = take_rowwise(...)
   self.input = layout("RowwiseParallel", "input_layouts", a.input_layouts, nil)
   self.output = layout("RowwiseParallel", "output_layouts", a.output_layouts, Replicate())
end

local function add_up(y, output, group)
   if is_shard(output) then return layouts.move(y, "sum_part", output.dim, group) end
   return layouts.move(y, "reduce", nil, group)
end

local function rowwise_linear(self, module, path, group)
   split_parameter("RowwiseParallel", path .. ".weight", module.weight, 2, group)
   local input, output = self.input or Shard(-1), self.output
   if module.bias and is_shard(output) then sum_gradients(module.bias, group) end
   rawset(module, "forward", function(this, x)
      if not last(input) then x = layouts.redistribute(x, input, Shard(-1), group) end
      local y = add_up(F.linear(x, this.weight), output, group)
      return this.bias and y + this.bias or y
   end)
end

local function rowwise_embedding(self, module, path, group)
   if module.max_norm or module.scale_grad_by_freq then
      torch.raise(("RowwiseParallel: %s: an Embedding with max_norm or scale_grad_by_freq " ..
         "cannot be split"):format(path))
   end
   split_parameter("RowwiseParallel", path .. ".weight", module.weight, 1, group)
   local count, output = module.num_embeddings // #group.ranks, self.output
   local before = group.group_rank * count
   local padding = module.padding_idx and module.padding_idx - before
   if padding and (padding < 1 or padding > count) then padding = nil end
   rawset(module, "forward", function(this, numbers)
      local own = numbers - before
      local elsewhere = own:lt(1):logical_or(own:gt(count))
      local y = F.embedding(own:masked_fill(elsewhere, 1), this.weight, {padding_idx = padding})
      return add_up(y:masked_fill(elsewhere:unsqueeze(-1), 0), output, group)
   end)
end

function M.RowwiseParallel:apply(module, path, group)
   expect(self, module, path)
   local apply = class.isinstance(module, Linear) and rowwise_linear or rowwise_embedding
   apply(self, module, path, group)
   refuse_reset(module, path)
end

local take_sequence = args.signature [[SequenceParallel(sequence_dim: integer = 2,
   use_local_output: boolean = true)]]

--- Shards the sequence for a module that treats each position separately (LayerNorm, RMSNorm,
--- Dropout): each rank has a part of the sequence, and the gradients of the module's parameters are
--- summed. The argument is such a part, as returned by a RowwiseParallel with output_layouts =
--- Shard(sequence_dim). The options sequence_dim and use_local_output have no effect.
---
---     local dist, nn = torch.distributed, torch.nn
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local mesh = dist.init_device_mesh("cpu", {1})
---     local parallel = dist.tensor.parallel
---     local model = nn.Sequential(nn.LayerNorm(4))
---     local styles = {["1"] = parallel.SequenceParallel()}
---     parallel.parallelize_module(model, mesh, styles)
---     print(model(torch.ones(2, 3, 4)).shape)
---     dist.destroy_process_group()
---     --> torch.Size([2, 3, 4])
---@class distributed.tensor.SequenceParallel: distributed.tensor.ParallelStyle
---@overload fun(options?: table): distributed.tensor.SequenceParallel
M.SequenceParallel = class.class("distributed.tensor.SequenceParallel", M.ParallelStyle)

function M.SequenceParallel:__init(...)
   local a = take_sequence(...)
   self.dim = a.sequence_dim
end

function M.SequenceParallel:apply(module, path, group) -- luacheck: no unused args
   for _, parameter in ipairs(module:parameters()) do sum_gradients(parameter, group) end
end

local take_input = args.signature [[PrepareModuleInput(input_layouts: object,
   desired_input_layouts: object)]]
local take_output = args.signature [[PrepareModuleOutput(output_layouts: object,
   desired_output_layouts: object)]]

--- Converts a module's first argument from one layout to another.
---
---     local dist, nn = torch.distributed, torch.nn
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local mesh = dist.init_device_mesh("cpu", {1})
---     local Replicate = dist.tensor.Replicate
---     local style = dist.tensor.parallel.PrepareModuleInput {
---        input_layouts = Replicate(),
---        desired_input_layouts = Replicate(),
---     }
---     local model = nn.Sequential(nn.Linear(4, 6))
---     dist.tensor.parallel.parallelize_module(model, mesh, {["1"] = style})
---     print(model(torch.ones(2, 4)).shape)
---     dist.destroy_process_group()
---     --> torch.Size([2, 6])
---@class distributed.tensor.PrepareModuleInput: distributed.tensor.ParallelStyle
---@overload fun(options: table): distributed.tensor.PrepareModuleInput
M.PrepareModuleInput = class.class("distributed.tensor.PrepareModuleInput", M.ParallelStyle)

function M.PrepareModuleInput:__init(...)
   local a = take_input(...)
   self.from = layout("PrepareModuleInput", "input_layouts", a.input_layouts)
   self.to = layout("PrepareModuleInput", "desired_input_layouts", a.desired_input_layouts)
end

function M.PrepareModuleInput:apply(module, _, group)
   wrap(module, function(x) return layouts.redistribute(x, self.from, self.to, group) end, pass)
end

--- Converts a module's first result from one layout to another.
---
---     local dist, nn = torch.distributed, torch.nn
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local mesh = dist.init_device_mesh("cpu", {1})
---     local Replicate = dist.tensor.Replicate
---     local style = dist.tensor.parallel.PrepareModuleOutput {
---        output_layouts = Replicate(),
---        desired_output_layouts = Replicate(),
---     }
---     local model = nn.Sequential(nn.Linear(4, 6))
---     dist.tensor.parallel.parallelize_module(model, mesh, {["1"] = style})
---     print(model(torch.ones(2, 4)).shape)
---     dist.destroy_process_group()
---     --> torch.Size([2, 6])
---@class distributed.tensor.PrepareModuleOutput: distributed.tensor.ParallelStyle
---@overload fun(options: table): distributed.tensor.PrepareModuleOutput
M.PrepareModuleOutput = class.class("distributed.tensor.PrepareModuleOutput", M.ParallelStyle)

function M.PrepareModuleOutput:__init(...)
   local a = take_output(...)
   self.from = layout("PrepareModuleOutput", "output_layouts", a.output_layouts)
   self.to = layout("PrepareModuleOutput", "desired_output_layouts", a.desired_output_layouts)
end

function M.PrepareModuleOutput:apply(module, _, group)
   wrap(module, pass, function(y, ...)
      return layouts.redistribute(y, self.from, self.to, group), ...
   end)
end

local take_both = args.signature [[PrepareModuleInputOutput(input_layouts: object,
   desired_input_layouts: object, output_layouts: object, desired_output_layouts: object)]]

--- Converts both a module's first argument and its first result.
---
---     local dist, nn = torch.distributed, torch.nn
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local mesh = dist.init_device_mesh("cpu", {1})
---     local Replicate = dist.tensor.Replicate
---     local style = dist.tensor.parallel.PrepareModuleInputOutput {
---        input_layouts = Replicate(),
---        desired_input_layouts = Replicate(),
---        output_layouts = Replicate(),
---        desired_output_layouts = Replicate(),
---     }
---     local model = nn.Sequential(nn.Linear(4, 6))
---     dist.tensor.parallel.parallelize_module(model, mesh, {["1"] = style})
---     print(model(torch.ones(2, 4)).shape)
---     dist.destroy_process_group()
---     --> torch.Size([2, 6])
---@class distributed.tensor.PrepareModuleInputOutput: distributed.tensor.ParallelStyle
---@overload fun(options: table): distributed.tensor.PrepareModuleInputOutput
M.PrepareModuleInputOutput =
   class.class("distributed.tensor.PrepareModuleInputOutput", M.ParallelStyle)

function M.PrepareModuleInputOutput:__init(...)
   local a = take_both(...)
   self.input = M.PrepareModuleInput {
      input_layouts = a.input_layouts, desired_input_layouts = a.desired_input_layouts,
   }
   self.output = M.PrepareModuleOutput {
      output_layouts = a.output_layouts, desired_output_layouts = a.desired_output_layouts,
   }
end

function M.PrepareModuleInputOutput:apply(module, path, group)
   self.input:apply(module, path, group)
   self.output:apply(module, path, group)
end

-- parallelize_module ------------------------------------------------------------------------------

-- Converts a name in a plan to a pattern of Lua for paths of modules. "*" matches any one component
-- of a path.
local function pattern_of(name)
   local quoted = name:gsub("[%^%$%(%)%%%.%[%]%+%-%?]", "%%%0"):gsub("%*", "[^.]+")
   return "^" .. quoted .. "$"
end

-- Returns a list of {path, module, style} for all modules that a plan names, in the alphabetical
-- order of the plan's names, which is the same on all ranks.
local function find(module, plan)
   local names, list = {}, {}
   for name in pairs(plan) do
      if type(name) ~= "string" and math.type(name) ~= "integer" then
         args.refuse("parallelize_module", "plan", "paths of modules as keys", name)
      end
      names[#names + 1] = tostring(name)
   end
   table.sort(names)
   for _, name in ipairs(names) do
      local style = plan[name] or plan[math.tointeger(name)]
      if not class.isinstance(style, M.ParallelStyle) then
         args.refuse("parallelize_module", ("plan[%q]"):format(name),
            "a style such as ColwiseParallel()", style)
      end
      local pattern, found = pattern_of(name), false
      for path, child in module:named_modules() do
         if path:find(pattern) then
            found = true
            list[#list + 1] = {path, child, style}
         end
      end
      if not found then
         torch.raise(("parallelize_module: plan: %s has no module %s"):format(torch.type(module),
            name))
      end
   end
   return list
end

--- Splits the layers of a module that a plan names over the ranks of a one-dimensional mesh. All
--- these ranks must call this function. Parameters of split layers take the values of the mesh's
--- first rank; other parameters must already be equal on all ranks. A split layer refuses
--- reset_parameters, which needs the whole shapes: call that method before the split, or load a
--- state.
---@param module nn.Module
---@param mesh distributed.DeviceMesh
---@param plan table<string, distributed.tensor.ParallelStyle>|distributed.tensor.ParallelStyle
--- path ("*" matches any one component) -> style; or one style for the module itself
---@param options? {src_data_rank: integer}  the rank whose values are taken, which must be 0
---@return nn.Module module
function M.parallelize_module(module, mesh, plan, options)
   args.check_options("parallelize_module", options, "src_data_rank")
   local source = options and options.src_data_rank
   if source ~= nil and source ~= 0 then
      args.refuse("parallelize_module", "src_data_rank", "0, the mesh's first rank", source)
   end
   if not class.isinstance(module, Module) then
      args.refuse("parallelize_module", "module", "a module", module)
   end
   if mesh == nil then
      args.refuse("parallelize_module", "mesh", "a mesh (see init_device_mesh)", mesh)
   end
   local group = device_mesh.group_of("parallelize_module", mesh)
   if class.isinstance(plan, M.ParallelStyle) then
      plan:apply(module, "module", group)
      return module
   end
   if type(plan) ~= "table" or getmetatable(plan) then
      args.refuse("parallelize_module", "plan", "a style, or a table from paths to styles", plan)
   end
   local found, items = find(module, plan), {}
   for i, entry in ipairs(found) do
      local weight = rawget(entry[2], "weight")
      items[i] = ("%s: %s%s"):format(entry[1], torch.type(entry[3]):match "[^.]*$",
         torch.is_tensor(weight) and (" of (%s)"):format(table.concat(weight.shape, ", ")) or "")
   end
   agree("parallelize_module", "entry of the plan", group, items)
   for _, entry in ipairs(found) do entry[3]:apply(entry[2], entry[1], group) end
   return module
end

M.cross_entropy, M.loss_parallel = losses.cross_entropy, losses.loss_parallel

return M
