-- DTensor.lua - a tensor that is split or replicated over the ranks of a mesh:
--
--    local d = distribute_tensor(w, mesh, {Shard(1)})  -- rank 0's w, by rows
--    d:to_local()                                      -- this rank's rows
--    d:redistribute(nil, {Shard(2)}):full_tensor()
--
-- A DTensor has no operators: compute with its parts, and make a DTensor of the result by
-- from_local. Gradients flow back through to_local, from_local, redistribute and full_tensor.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local device_mesh = require "tlua.distributed.device_mesh"
local layouts = require "tlua.distributed.tensor.layouts"

local M = {}

---     local dist = torch.distributed
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local mesh = dist.init_device_mesh("cpu", {1})
---     local tensor = dist.tensor
---     local whole = torch.ones(4, 2)
---     local x = tensor.distribute_tensor(whole, mesh, {tensor.Shard(1)})
---     print(x.placements[1], x:to_local():sum())
---     dist.destroy_process_group()
---     --> Shard(1)	tensor(8.)
---@class distributed.tensor.DTensor
---@field device_mesh distributed.DeviceMesh  the mesh over which the tensor is distributed
---@field placements distributed.tensor.Placement[]  one for each dimension of the mesh
---@field shape integer[]  the shape of the whole tensor
---@field grad distributed.tensor.DTensor?  the gradient, distributed in the same way; along a mesh
--- dimension with the placement Partial, the gradient is replicated
local DTensor = class.class("distributed.tensor.DTensor")
M.DTensor = DTensor

local Shard, Replicate = layouts.Shard, layouts.Replicate

-- Arguments --------------------------------------------------------------------------------------

local function check_mesh(title, mesh)
   if not class.isinstance(mesh, device_mesh.DeviceMesh) then
      args.refuse(title, "device_mesh", "a mesh (see init_device_mesh)", mesh)
   end
   return mesh
end

-- Checks placements, and returns them as a list in which negative tensor dimensions are replaced by
-- positive ones. A single placement stands for a list of one, and Replicate() for a missing
-- placement or list. Raises an error unless there is one placement for each dimension of the mesh.
local function check_placements(title, placements, mesh, ndim)
   if class.isinstance(placements, layouts.Placement) then placements = {placements} end
   local list, expected = {}, ("a list of %d placements"):format(mesh.ndim)
   if placements ~= nil and (type(placements) ~= "table" or #placements ~= mesh.ndim) then
      args.refuse(title, "placements", expected, placements)
   end
   for i = 1, mesh.ndim do
      local placement = placements and placements[i] or Replicate()
      if not class.isinstance(placement, layouts.Placement) then
         args.refuse(title, ("placements[%d]"):format(i), "Shard(dim), Replicate() or Partial()",
            placement)
      end
      if placement:is_shard() then
         local dim = placement.dim
         if dim > ndim or dim < -ndim then
            torch.raise(("%s: placements[%d]: expected a dimension of a tensor that has %d, got %d")
               :format(title, i, ndim, dim))
         end
         placement = Shard(dim < 0 and ndim + 1 + dim or dim)
      end
      list[i] = placement
   end
   return list
end

local function new(part, mesh, placements, shape)
   local d = DTensor()
   for name, value in pairs {part = part, device_mesh = mesh, placements = placements,
      shape = shape} do
      rawset(d, name, value)
   end
   return d
end

-- Moving -----------------------------------------------------------------------------------------

-- Converts this rank's part of a tensor from the placement `from` to the placement `to` along one
-- dimension of a mesh, whose ranks are `group`.
local function move(part, from, to, group)
   if from == to then return part end
   if from:is_shard() then return layouts.move(part, "gather", from.dim, group) end
   if to:is_replicate() then return layouts.move(part, "reduce", nil, group) end
   return layouts.move(part, from:is_partial() and "sum_part" or "split", to.dim, group)
end

-- Returns whether the parts along mesh dimension i must be gathered. This is so if the placement
-- along dimension i changes, or if an earlier mesh dimension splits the same tensor dimension and
-- its placement changes.
local function gathers(from, to, i)
   if not from[i]:is_shard() then return false end
   for k = 1, i do
      local same = k == i or from[k]:is_shard(from[i].dim) or to[k]:is_shard(from[i].dim)
      if same and from[k] ~= to[k] then return true end
   end
   return false
end

-- Converts this rank's part from the placements `from` to the placements `to`, which have one
-- placement for each mesh dimension. If several mesh dimensions split the same tensor dimension,
-- the last of them is gathered first and split last.
local function move_all(part, mesh, from, to)
   local now = table.move(from, 1, #from, 1, {})
   for i = #from, 1, -1 do
      if gathers(from, to, i) then
         now[i] = Replicate()
         part = move(part, from[i], now[i], mesh:get_group(i))
      end
   end
   for i = 1, #from do part = move(part, now[i], to[i], mesh:get_group(i)) end
   return part
end

local take_redistribute = args.signature [[DTensor.redistribute(device_mesh: object?,
   placements: any)]]

--- Returns the same tensor with other placements. All ranks of the mesh must call this method.
---@param device_mesh? distributed.DeviceMesh  this tensor's mesh
---@param placements distributed.tensor.Placement[]  Shard or Replicate; Partial stays Partial
---@return distributed.tensor.DTensor
function DTensor:redistribute(...)
   local a = take_redistribute(...)
   local title <const> = "DTensor.redistribute"
   if a.device_mesh and a.device_mesh ~= self.device_mesh then
      args.refuse(title, "device_mesh", "the tensor's own", a.device_mesh)
   end
   local to = check_placements(title, a.placements, self.device_mesh, #self.shape)
   for i, placement in ipairs(to) do
      if placement:is_partial() and not self.placements[i]:is_partial() then
         torch.raise(("%s: placements[%d]: expected Shard(dim) or Replicate(), got Partial(sum)")
            :format(title, i))
      end
   end
   return new(move_all(self.part, self.device_mesh, self.placements, to), self.device_mesh, to,
      self.shape)
end

--- Returns the whole tensor. All ranks of the mesh must call this method.
---@return Tensor
function DTensor:full_tensor()
   return self:redistribute {placements = check_placements("DTensor.full_tensor", nil,
      self.device_mesh, #self.shape)}.part
end

--- Returns this rank's part without a copy. The part's gradient must have the same placements; the
--- gradient of a replicated tensor must be equal on all ranks.
---@return Tensor
function DTensor:to_local()
   return self.part
end

-- Making -----------------------------------------------------------------------------------------

local take_local = args.signature [[DTensor.from_local(local_tensor: tensor, device_mesh: object,
   placements: any?)]]

--- Makes a DTensor of which this rank has the given part; the parts of all ranks must have the same
--- shape.
---@param local_tensor Tensor
---@param device_mesh distributed.DeviceMesh
---@param placements? distributed.tensor.Placement[]  Replicate() by default
---@return distributed.tensor.DTensor
function DTensor.from_local(...)
   local a = take_local(...)
   local title <const> = "DTensor.from_local"
   local mesh, part = check_mesh(title, a.device_mesh), a.local_tensor
   local placements = check_placements(title, a.placements, mesh, part:dim())
   local shape = table.move(part.shape, 1, part:dim(), 1, {})
   for i, placement in ipairs(placements) do
      if placement:is_shard() then
         shape[placement.dim] = shape[placement.dim] * mesh:size(i)
      end
   end
   return new(part, mesh, placements, shape)
end

-- Returns the shape of this rank's part of a tensor with the whole shape `shape`.
local function part_shape(title, shape, mesh, placements)
   local left = table.move(shape, 1, #shape, 1, {})
   for i, placement in ipairs(placements) do
      if placement:is_partial() then
         args.refuse(title, ("placements[%d]"):format(i), "Shard(dim) or Replicate()", placement)
      end
      local dim, n = placement.dim, mesh:size(i)
      if dim and left[dim] % n ~= 0 then
         torch.raise(("%s: dimension %d, of size %d, cannot be split over %d ranks"):format(title,
            dim, left[dim], n))
      end
      if dim then left[dim] = left[dim] // n end
   end
   return left
end

local take_distribute = args.signature [[distribute_tensor(tensor: tensor, device_mesh: object,
   placements: any?)]]

--- Splits the tensor of the mesh's first rank over the mesh. The parts are new leaf tensors, which
--- require gradients if the tensor does. All ranks of the mesh must call the function, with tensors
--- of one shape.
---@param tensor Tensor
---@param device_mesh distributed.DeviceMesh
---@param placements? distributed.tensor.Placement[]  Shard or Replicate, the latter by default
---@return distributed.tensor.DTensor
function M.distribute_tensor(...)
   local a = take_distribute(...)
   local title <const> = "distribute_tensor"
   local mesh = check_mesh(title, a.device_mesh)
   local placements = check_placements(title, a.placements, mesh, a.tensor:dim())
   local shape = table.move(a.tensor.shape, 1, a.tensor:dim(), 1, {})
   part_shape(title, shape, mesh, placements)
   local _ <close> = torch.no_grad()
   local part, whole = a.tensor:detach():clone():contiguous(), {}
   for i = 1, mesh.ndim do
      mesh:get_group(i):run("broadcast", {outputs = part})
      whole[i] = Replicate()
   end
   part = move_all(part, mesh, whole, placements):clone()
   return new(part:requires_grad_(a.tensor.requires_grad), mesh, placements, shape)
end

local options <const> = [[device_mesh: object, placements: any?, dtype: string?,
   requires_grad: boolean = false)]]

-- Defines a function that makes a DTensor. It calls make(shape, a) for this rank's part, where
-- `shape` is the shape of the part, and `a` has the function's arguments.
local function define(name, arguments, make)
   local title <const> = "distributed.tensor." .. name
   local take = args.signature(title .. arguments .. options)
   return function(...)
      local a = take(...)
      local mesh = check_mesh(title, a.device_mesh)
      local size = type(a.size) == "table" and a.size or {a.size}
      local placements = check_placements(title, a.placements, mesh, #size)
      local part = make(part_shape(title, size, mesh, placements), a)
      local shape = table.move(size, 1, #size, 1, {})
      return new(part:requires_grad_(a.requires_grad), mesh, placements, shape)
   end
end

local function filled_with(value)
   return function(shape, a) return torch.full(shape, value or a.fill_value, {dtype = a.dtype}) end
end

--- Makes a DTensor whose elements have one value; each rank fills its part: zeros(size, options),
--- ones(size, options) and full(size, fill_value, options), with device_mesh, placements, dtype and
--- requires_grad. The dtype is float32 by default; full's default is that of torch.full.
---@names distributed.tensor.zeros distributed.tensor.ones
---@param size integer|integer[]  the size of the whole tensor
---@param options? {device_mesh: table, placements: table, dtype: string, requires_grad: boolean}
---@return distributed.tensor.DTensor
M.zeros = define("zeros", "(size: integers, ", filled_with(0.0))
M.ones = define("ones", "(size: integers, ", filled_with(1.0))

--- Makes a DTensor whose elements have one value; see distributed.tensor.zeros.
---@names distributed.tensor.full
---@param size integer|integer[]  the size of the whole tensor
---@param fill_value number
---@param options? {device_mesh: table, placements: table, dtype: string, requires_grad: boolean}
---@return distributed.tensor.DTensor
M.full = define("full", "(size: integers, fill_value: number, ", filled_with())

-- Asking -----------------------------------------------------------------------------------------

local of_part <const> = {dtype = true, device = true, requires_grad = true, is_leaf = true}

-- Looks up a method or a field of a DTensor. Some fields are read from this rank's part. The
-- gradient of a Partial tensor is a Replicate tensor.
local function look_up(d, key)
   local value = DTensor[key]
   if value ~= nil then return value end
   local part = rawget(d, "part")
   if part and of_part[key] then return part[key] end
   if key == "grad" then
      local grad, placements = part.grad, {}
      if not grad then return nil end
      for i, placement in ipairs(d.placements) do
         placements[i] = placement:is_partial() and Replicate() or placement
      end
      return new(grad, d.device_mesh, placements, d.shape)
   end
   if part then
      torch.raise(("DTensor: there is no %s: it has no operators; compute with to_local() and " ..
         "DTensor.from_local"):format(args.describe(key)))
   end
end

DTensor.__index = look_up

for name in ("add sub mul div idiv mod pow unm"):gmatch "%a+" do
   DTensor["__" .. name] = function()
      torch.raise(("DTensor: there is no __%s: it has no operators; compute with to_local() and " ..
         "DTensor.from_local"):format(name))
   end
end

--- Returns the number of dimensions.
---@return integer
function DTensor:dim() return #self.shape end

--- Returns the sizes of the whole tensor, or the size of one dimension.
---@param dim? integer
---@return integer|integer[]
function DTensor:size(dim)
   if dim == nil then return table.move(self.shape, 1, #self.shape, 1, {}) end
   local n = #self.shape
   local size = math.type(dim) == "integer" and self.shape[dim < 0 and n + 1 + dim or dim]
   if not size then args.refuse("DTensor.size", "dim", ("1 to %d"):format(n), dim) end
   return size
end

--- Returns the number of elements of the whole tensor.
---@return integer
function DTensor:numel()
   local n = 1
   for _, size in ipairs(self.shape) do n = n * size end
   return n
end

function DTensor:__tostring()
   local names = {}
   for i, placement in ipairs(self.placements) do names[i] = tostring(placement) end
   return ("DTensor(%s (%s), {%s}, %s)"):format(self.dtype, table.concat(self.shape, ", "),
      table.concat(names, ", "), tostring(self.device_mesh))
end

return M
