-- device_mesh.lua - arranges the ranks of a world in a grid. Each dimension of the grid is one kind
-- of parallelism: data, tensor or pipeline parallel.
--
--    local mesh = dist.init_device_mesh("cpu", {2, 2, 2}, {mesh_dim_names = {"pp", "dp", "tp"}})
--    mesh.tp:get_group()           -- this rank and the ranks that differ only along "tp"
--    mesh["dp"]:size()
--
-- Ranks that are neighbours along the last dimension have successive numbers. Dimensions count from
-- 1, coordinates and ranks from 0.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local agree = require "tlua.distributed.agree"
local groups = require "tlua.distributed.group"

local M = {}

--- A grid of ranks, as `init_device_mesh` makes it. Indexing by a dimension's name gives this
--- rank's row of the grid along that dimension: `mesh.dp` or `mesh["dp"]`. A list of names gives
--- this rank's part along several dimensions: `mesh[{"dp", "tp"}]`.
---
---     local dist = torch.distributed
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local names = {mesh_dim_names = {"dp", "tp"}}
---     local mesh = dist.init_device_mesh("cpu", {1, 1}, names)
---     print(#mesh.shape, mesh.dp.mesh_dim_names[1], mesh:size())
---     dist.destroy_process_group()
---     --> 2	dp	1
---@class distributed.DeviceMesh
---@field device_type string  "cpu", "sim" or "cuda"
---@field shape integer[]  the sizes of its dimensions
---@field mesh_dim_names string[]?  the dimensions' names
local DeviceMesh = class.class("distributed.DeviceMesh")

-- Returns a method or a field of a mesh or, if the key is the name of a dimension, this rank's part
-- of the mesh along it.
local function look_up(mesh, key)
   local value = DeviceMesh[key]
   if value ~= nil then return value end
   if key == "mesh_dim_names" or type(key) ~= "string" and type(key) ~= "table" then return nil end
   if not rawget(mesh, "mesh_dim_names") then
      torch.raise(("DeviceMesh: no dimension %s: the mesh was made without mesh_dim_names")
         :format(args.describe(key)))
   end
   return mesh:_slice(key)
end

-- The ranks of a grid are in a list. Returns, for each dimension, the distance in the list between
-- neighbours along this dimension. The stride of the last dimension is 1.
local function strides_of(shape)
   local strides, n = {}, 1
   for d = #shape, 1, -1 do
      strides[d] = n
      n = n * shape[d]
   end
   return strides, n
end

local take_fields = args.signature [[DeviceMesh(device_type: string, shape: table,
   coordinate: table, groups: table, ranks: table, mesh_dim_names: table?)]]

--- Makes a mesh; `init_device_mesh` calls this constructor.
function DeviceMesh:__init(...)
   local fields = take_fields(...)
   for name, value in pairs(fields) do rawset(self, name, value) end
   rawset(self, "ndim", #self.shape)
end

DeviceMesh.__index = look_up

local function text_of(list) return table.concat(list, ", ") end

function DeviceMesh:__tostring()
   local names = self.mesh_dim_names
   return ("DeviceMesh(%s, (%s)%s)"):format(self.device_type, text_of(self.shape),
      names and ", " .. table.concat(names, " x ") or "")
end

-- Returns the position of a dimension that is given by name or number; nil means the mesh's only
-- dimension.
local function dimension(mesh, title, dim)
   if dim == nil then
      if #mesh.shape > 1 then
         torch.raise(("%s: mesh_dim: expected one of the %d dimensions, got nil"):format(title,
            #mesh.shape))
      end
      return 1
   end
   if type(dim) == "string" then
      for d, name in ipairs(mesh.mesh_dim_names or {}) do
         if name == dim then return d end
      end
      torch.raise(("%s: the mesh has no dimension %q; it has %s"):format(title, dim,
         mesh.mesh_dim_names and text_of(mesh.mesh_dim_names) or "no names"))
   end
   local d = math.tointeger(dim)
   if d and d < 0 then d = #mesh.shape + 1 + d end
   if not d or d < 1 or d > #mesh.shape then
      args.refuse(title, "mesh_dim", ("a dimension from 1 to %d"):format(#mesh.shape), dim)
   end
   return d
end

--- Returns the group of this rank and of the ranks whose coordinates differ along this dimension
--- only.
---@param mesh_dim? integer|string  optional if the mesh has one dimension
---@return distributed.ProcessGroup
function DeviceMesh:get_group(mesh_dim)
   return self.groups[dimension(self, "DeviceMesh.get_group", mesh_dim)]
end

--- Returns this rank's groups along all dimensions.
---@return distributed.ProcessGroup[]
function DeviceMesh:get_all_groups()
   return table.move(self.groups, 1, #self.groups, 1, {})
end

--- Returns this rank's coordinate along a dimension, from 0.
---@param mesh_dim? integer|string
---@return integer
function DeviceMesh:get_local_rank(mesh_dim)
   return self.coordinate[dimension(self, "DeviceMesh.get_local_rank", mesh_dim)]
end

--- Returns this rank's coordinates along all dimensions, from 0.
---@return integer[]
function DeviceMesh:get_coordinate()
   return table.move(self.coordinate, 1, #self.coordinate, 1, {})
end

--- Returns this process's rank in the world.
---@return integer
function DeviceMesh:get_rank()
   return torch.distributed.get_rank()
end

--- Returns the number of ranks of the mesh, or of one dimension of the mesh.
---@param mesh_dim? integer|string
---@return integer
function DeviceMesh:size(mesh_dim)
   if mesh_dim ~= nil then return self.shape[dimension(self, "DeviceMesh.size", mesh_dim)] end
   local n = 1
   for _, size in ipairs(self.shape) do n = n * size end
   return n
end
DeviceMesh.numel = DeviceMesh.size

-- Returns the ranks, in order, whose coordinates equal this rank's coordinates in all but the given
-- dimensions.
local function ranks_along(mesh, dims)
   local list, strides = {}, strides_of(mesh.shape)
   local function visit(k, at)
      local d = dims[k]
      if not d then
         list[#list + 1] = mesh.ranks[at + 1]
         return
      end
      local first = at - mesh.coordinate[d] * strides[d]
      for c = 0, mesh.shape[d] - 1 do visit(k + 1, first + c * strides[d]) end
   end
   local here = 0
   for d, c in ipairs(mesh.coordinate) do here = here + c * strides[d] end
   visit(1, here)
   return list
end

--- Returns the part of the mesh along the named dimensions that contains this rank.
function DeviceMesh:_slice(names)
   if type(names) == "string" then names = {names} end
   if type(names) ~= "table" or #names == 0 then
      args.refuse("DeviceMesh", "name", "the name of a dimension or a list of them", names)
   end
   local dims = {}
   for i, name in ipairs(names) do
      if type(name) ~= "string" then
         args.refuse("DeviceMesh", "name", "the name of a dimension", name)
      end
      dims[i] = dimension(self, "DeviceMesh", name)
      if i > 1 and dims[i] <= dims[i - 1] then
         torch.raise(("DeviceMesh: expected names in the mesh's order (%s), got %s"):format(
            text_of(self.mesh_dim_names), text_of(names)))
      end
   end
   local fields = {
      device_type = self.device_type, mesh_dim_names = {}, shape = {}, coordinate = {},
      groups = {}, ranks = ranks_along(self, dims),
   }
   for i, d in ipairs(dims) do
      fields.mesh_dim_names[i], fields.shape[i] = self.mesh_dim_names[d], self.shape[d]
      fields.coordinate[i], fields.groups[i] = self.coordinate[d], self.groups[d]
   end
   return DeviceMesh(fields)
end

-- Making ---------------------------------------------------------------------------------------

-- Makes this rank's group along each dimension. All ranks make all groups, in the same order.
local function make_groups(mesh)
   local strides, n = strides_of(mesh.shape)
   for d, size in ipairs(mesh.shape) do
      for first = 0, n - 1 do
         if first // strides[d] % size == 0 then
            local members, mine = {}, false
            for c = 0, size - 1 do
               local rank = mesh.ranks[first + c * strides[d] + 1]
               members[c + 1] = rank
               mine = mine or rank == mesh:get_rank()
            end
            local group = torch.distributed.new_group(members)
            if mine then mesh.groups[d] = group end
         end
      end
   end
end

local take = args.signature
   "init_device_mesh(device_type: string, mesh_shape: integers, mesh_dim_names: table?)"

local function check_names(names, shape)
   if not names then return nil end
   local seen = {}
   for i, name in ipairs(names) do
      if type(name) ~= "string" or not name:find "^%a" or DeviceMesh[name] ~= nil
         or name == "shape" or name == "ndim" or name == "ranks" or name == "groups"
         or name == "coordinate" then
         args.refuse("init_device_mesh", ("mesh_dim_names[%d]"):format(i),
            "a word that is no field or method of a mesh", name)
      end
      if seen[name] then
         torch.raise(("init_device_mesh: mesh_dim_names: %q occurs twice"):format(name))
      end
      seen[name] = true
   end
   if #names ~= #shape then
      torch.raise(("init_device_mesh: mesh_dim_names: expected %d names, one for each " ..
         "dimension, got %d"):format(#shape, #names))
   end
   return table.move(names, 1, #names, 1, {})
end

--- Arranges all ranks of the world in a grid, with a group for each row along each dimension. Every
--- rank must call this function. It first joins a process group unless the rank has joined one.
---@param device_type string  "cpu", "sim", "cuda"
---@param mesh_shape integer[]  the sizes of the dimensions, whose product is the world's size
---@param options? {mesh_dim_names: string[]}
---@return distributed.DeviceMesh
function M.init_device_mesh(...)
   local a = take(...)
   local shape = type(a.mesh_shape) == "table" and a.mesh_shape or {a.mesh_shape}
   if #shape == 0 then
      args.refuse("init_device_mesh", "mesh_shape", "at least one size", a.mesh_shape)
   end
   for d, size in ipairs(shape) do
      if size < 1 then
         args.refuse("init_device_mesh", ("mesh_shape[%d]"):format(d), "at least 1", size)
      end
   end
   local names = check_names(a.mesh_dim_names, shape)
   local kind = a.device_type:match "^%a+$"
   if kind ~= "cpu" and kind ~= "sim" and kind ~= "cuda" then
      args.refuse("init_device_mesh", "device_type", '"cpu", "sim" or "cuda"', a.device_type)
   end
   if not torch.distributed.is_initialized() then torch.distributed.init_process_group() end
   local world = groups.resolve("init_device_mesh")
   local strides, n = strides_of(shape)
   if n ~= #world.ranks then
      torch.raise(("init_device_mesh: mesh_shape: (%s) has %d ranks, but the world has %d"):format(
         text_of(shape), n, #world.ranks))
   end
   agree("init_device_mesh", "argument", world, {
      a.device_type, "(" .. text_of(shape) .. ")", "(" .. text_of(names or {}) .. ")",
   })
   local mesh = DeviceMesh {
      device_type = a.device_type, mesh_dim_names = names, shape = {table.unpack(shape)},
      coordinate = {}, groups = {}, ranks = table.move(world.ranks, 1, n, 1, {}),
   }
   for d, size in ipairs(shape) do
      mesh.coordinate[d] = world.group_rank // strides[d] % size
   end
   make_groups(mesh)
   return mesh
end

--- Returns the group of a mesh of one dimension, or the world's group for nil; raises an error for
--- any other value.
---@param title string  the calling function's name, for messages
---@param mesh? distributed.DeviceMesh
---@return distributed.ProcessGroup
function M.group_of(title, mesh)
   if mesh == nil then return groups.resolve(title) end
   if not class.isinstance(mesh, DeviceMesh) then
      args.refuse(title, "mesh", "a mesh (see init_device_mesh)", mesh)
   end
   if mesh.ndim ~= 1 then
      torch.raise(("%s: mesh: expected one dimension, such as mesh.%s, got %s"):format(title,
         (mesh.mesh_dim_names or {"dp"})[1], tostring(mesh)))
   end
   return mesh:get_group()
end

M.DeviceMesh = DeviceMesh

return M
