-- strategy.lua - lets several ranks train one module, by DistributedDataParallel or with parameters
-- that fully_shard shards over the ranks. Also saves and loads the states of sharded modules and
-- their optimizers.
--
-- Ranks of a mesh that differ only along a dimension named "tp", "tensor" or "tensor_parallel" get
-- the same data; ranks that differ along another dimension get different data.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local io_folder = require "tlua.io.folder"
local FSDPStrategy = require "tlua.trainer.FSDPStrategy"
local device_mesh = require "tlua.distributed.device_mesh"

local M = {}

local tensor_names <const> = {tp = true, tensor = true, tensor_parallel = true}
local expected <const> = '"auto", "ddp", "fsdp", a trainer.FSDPStrategy, or a mesh'

--- Checks the option `strategy`. Replaces "fsdp" or a mesh by an FSDPStrategy.
---@param name string  the beginning of messages
---@param value any
---@return string|trainer.FSDPStrategy
function M.check(name, value)
   if value == "auto" or value == "ddp" then return value end
   if value == "fsdp" then return FSDPStrategy() end
   if class.isinstance(value, FSDPStrategy) then return value end
   if class.isinstance(value, device_mesh.DeviceMesh) then return FSDPStrategy {mesh = value} end
   args.refuse(name, "strategy", expected, value)
end

-- Examines the dimensions of a mesh along which the ranks have different data. Returns the number
-- of shares of the data, the number of this rank's share (from 0), and the names of these
-- dimensions. Raises an error if the mesh has a dimension for pipeline parallelism.
local function data_dimensions(name, mesh)
   local names, size, place = {}, 1, 0
   for d, length in ipairs(mesh.shape) do
      local title = (mesh.mesh_dim_names or {})[d]
      if title == "pp" or title == "pipeline_parallel" then
         torch.raise(("%s: strategy: expected a mesh for data and tensor parallelism, got the "
            .. "dimension %s"):format(name, title))
      end
      if not tensor_names[title] then
         names[#names + 1] = title or d
         size, place = size * length, place * length + mesh.coordinate[d]
      end
   end
   return size, place, names
end

--- Sets `data_shares`, the number of shares of the data, and `data_share`, the number of this
--- rank's share (from 0).
---@param name string  the beginning of messages
---@param self trainer.Trainer
function M.place(name, self)
   self.data_shares, self.data_share = self.world_size, self.global_rank
   local mesh = type(self.strategy) == "table" and self.strategy.mesh
   if not mesh then return end
   local ranks = 1
   for _, length in ipairs(mesh.shape) do ranks = ranks * length end
   if ranks ~= self.world_size then
      torch.raise(("%s: strategy: expected a mesh of all %d ranks, got one of %d"):format(name,
         self.world_size, ranks))
   end
   self.data_shares, self.data_share = data_dimensions(name, mesh)
end

-- Wrapping the module -----------------------------------------------------------------------------

-- A module whose forward runs a step of the trained module. DDP and fully_shard wrap this module,
-- so the step may use any part of the trained module.
local Step = class.class("trainer.Step", torch.nn.Module)

function Step:__init(module) self.module = module end

function Step:forward(method, ...) return self.module[method](self.module, ...) end

-- Maps each module whose parameters are sharded to its Step.
local sharded = setmetatable({}, {__mode = "k"})

local function is_sharded(module)
   for _, part in ipairs(module:modules()) do
      if rawget(part, "set_requires_gradient_sync") then return true end
   end
   return false
end

-- Returns the mesh over which fully_shard shards parameters. It has only the dimensions along which
-- the data differ. Returns nil if there are no such dimensions.
local function data_mesh(mesh)
   local _, _, names = data_dimensions("trainer.Trainer", mesh)
   if #names == #mesh.shape then return mesh end
   if #names == 0 then return nil end
   return mesh[#names == 1 and names[1] or names]
end

local function shard(self, module)
   local strategy, mesh = self.strategy, nil
   if type(strategy) ~= "table" then strategy = FSDPStrategy() end
   local step = Step(module)
   if strategy.mesh then
      mesh = data_mesh(strategy.mesh)
      if not mesh then return step end
   end
   local options = {mesh = mesh, mp_policy = strategy.mp_policy,
      offload_policy = strategy.offload_policy,
      reshard_after_forward = strategy.reshard_after_forward}
   local fully_shard = torch.distributed.fsdp.fully_shard
   local parts = module:modules()
   for i = #parts, 1, -1 do -- inner modules are sharded before the modules that contain them
      local part = parts[i]
      if part ~= module and strategy.is_unit(part)
         and not rawget(part, "set_requires_gradient_sync") and part:parameters()[1] then
         fully_shard(part, options)
      end
   end
   return fully_shard(step, options)
end

local function check_sharded(self)
   for _, callback in ipairs(self.callbacks) do
      if class.isinstance(callback, require "tlua.trainer.StochasticWeightAveraging") then
         torch.raise("trainer.Trainer: strategy: StochasticWeightAveraging needs whole parameters; "
            .. 'use strategy = "ddp"')
      end
   end
end

--- Creates `self.wrapped`, a module whose forward runs a step of the trained module on all ranks
--- together. `self.wrapped` is nil if there is one rank, and outside `fit` if no parameters are
--- sharded.
---@param self trainer.Trainer
---@param module trainer.Module
function M.wrap(self, module)
   self.wrapped, self.ddp, self.shards = nil, nil, nil
   if self.world_size == 1 then return end
   if self.stage == "fit" and not module.automatic_optimization then
      torch.raise("trainer.Trainer: automatic_optimization = false needs a single rank")
   end
   local divided = sharded[module] ~= nil or is_sharded(module)
   if divided and self.strategy == "ddp" then
      torch.raise('trainer.Trainer: strategy: fully_shard has divided the module; expected "auto" '
         .. 'or "fsdp", got "ddp"')
   end
   if divided or type(self.strategy) == "table" then
      check_sharded(self)
      sharded[module] = sharded[module] or shard(self, module)
      self.wrapped, self.shards = sharded[module], true
   elseif self.stage == "fit" then
      self.ddp = torch.nn.parallel.DistributedDataParallel(Step(module))
      self.wrapped = self.ddp
   end
end

-- States ------------------------------------------------------------------------------------------

local function distributed_checkpoint() return torch.distributed.checkpoint end

--- Returns the module's state for a checkpoint in one file. If the module is sharded, the first
--- rank gets whole tensors, and all ranks must call the function.
---@param self trainer.Trainer
---@return table<string, Tensor>
function M.module_state(self)
   if not self.shards then return self.module:state_dict() end
   return distributed_checkpoint().get_model_state_dict(self.module,
      {full_state_dict = true, cpu_offload = true})
end

--- Returns an optimizer's state for a checkpoint in one file. If the module is sharded, the keys
--- are the paths of the parameters.
---@param self trainer.Trainer
---@param optimizer optim.Optimizer
---@return table
function M.optimizer_state(self, optimizer)
   if not self.shards then return optimizer:state_dict() end
   return distributed_checkpoint().get_optimizer_state_dict(self.module, optimizer,
      {full_state_dict = true, cpu_offload = true})
end

--- Loads a module's state from a checkpoint that is one file.
---@param self trainer.Trainer
---@param state table<string, Tensor>
function M.load_module(self, state)
   if not self.shards then return self.module:load_state_dict(state) end
   distributed_checkpoint().set_model_state_dict(self.module, state, {full_state_dict = true})
end

-- Returns the state of an optimizer, with the paths of the parameters in place of their positions.
local function with_paths(self, optimizer, state)
   if #state.param_groups == 0 or type(state.param_groups[1].params[1]) == "string" then
      return state
   end
   local names, at = {}, {}
   for path, parameter in self.module:named_parameters() do names[parameter] = path end
   for position, parameter in optimizer:each() do at[position] = names[parameter] end
   local result = {state = {}, param_groups = {}}
   for position, values in pairs(state.state) do result.state[at[position]] = values end
   for g, group in ipairs(state.param_groups) do
      local copy = {}
      for key, value in pairs(group) do copy[key] = value end
      copy.params = {}
      for i, position in ipairs(group.params) do copy.params[i] = at[position] end
      result.param_groups[g] = copy
   end
   return result
end

-- Returns whether an optimizer's state names the parameters by their paths.
local function has_paths(state)
   local value = state
   for _, key in ipairs {"param_groups", 1, "params", 1} do
      if type(value) ~= "table" then return false end
      value = value[key]
   end
   return type(value) == "string"
end

--- Loads an optimizer's state from a checkpoint that is one file.
---@param self trainer.Trainer
---@param optimizer optim.Optimizer
---@param state table
function M.load_optimizer(self, optimizer, state)
   local by_path = has_paths(state)
   if not self.shards and not by_path then return optimizer:load_state_dict(state) end
   distributed_checkpoint().set_optimizer_state_dict(self.module, optimizer,
      with_paths(self, optimizer, state), {full_state_dict = true})
end

-- Folders -----------------------------------------------------------------------------------------

local REST <const> = "trainer.pt"

--- Returns whether checkpoints are folders, to which each rank writes its own shards.
---@param self trainer.Trainer
---@return boolean
function M.saves_folders(self)
   return type(self.strategy) == "table" and self.strategy.state_dict_type == "sharded"
end

--- Removes a checkpoint, which is a file or a folder.
---@param path string
function M.remove(path)
   for _, file in ipairs(M.files_of(path)) do os.remove(path .. "/" .. file) end
   os.remove(path)
end

--- Returns the names of the files in a checkpoint that is a folder. For a checkpoint that is a
--- file, returns an empty list.
---@param path string
---@return string[]
function M.files_of(path)
   local _, files = io_folder.list(path)
   return type(files) == "table" and files or {}
end

-- Returns the objects that distributed.checkpoint saves or loads.
local function parts_of(self, weights_only)
   local parts = {module = self.module}
   if not weights_only and #self.optimizers > 0 then parts.optimizers = self.optimizers end
   return parts
end

local function exists(path)
   local file <close> = io.open(path, "rb")
   return file ~= nil or io_folder.list(path) ~= nil
end

local function rename(from, to)
   local ok, message = os.rename(from, to)
   if not ok then torch.raise("trainer: " .. message) end
end

--- Saves a checkpoint to a folder. If a folder with this name exists, it is replaced only once the
--- new one is complete.
---@param self trainer.Trainer
---@param path string
---@param rest table  the state that is not sharded
---@param weights_only boolean
function M.save_folder(self, path, rest, weights_only)
   local part, old = path .. ".part", path:gsub("%.ckpt$", "") .. ".previous.ckpt"
   if self.is_global_zero then M.remove(part) end
   if self.world_size > 1 then torch.distributed.barrier() end
   distributed_checkpoint().save(parts_of(self, weights_only), {checkpoint_id = part})
   if not self.is_global_zero then return end
   torch.save(rest, part .. "/" .. REST)
   local replaces = exists(path)
   if replaces then
      M.remove(old)
      rename(path, old)
   end
   rename(part, path)
   if replaces then M.remove(old) end
end

--- Reads a checkpoint. If it is a folder, the shards are not read.
---@param path string
---@param maps? boolean  whether the file is mapped, so that tensors are read when they are used
---@return any state
function M.read(path, maps)
   local options = {mmap = maps or nil}
   if #M.files_of(path) == 0 then return torch.load(path, options) end
   local state = torch.load(path .. "/" .. REST, options)
   if type(state) == "table" then state.folder = path end
   return state
end

--- Loads the shards in a folder into the module and, unless `weights_only` is true, into the
--- optimizers.
---@param self {module: nn.Module, optimizers: optim.Optimizer[]?}
---@param path string
---@param weights_only boolean
function M.load_folder(self, path, weights_only)
   distributed_checkpoint().load(parts_of(self, weights_only), {checkpoint_id = path})
end

return M
