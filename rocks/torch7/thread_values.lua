-- thread_values.lua - packs Lua values for another interpreter; the package threads uses it. `pack`
-- returns plain tables, strings and tensors, which torch.workers can send. `unpack` rebuilds the
-- values: functions with their upvalues, objects of Torch7's classes, tensors and storages. For a
-- package's functions and classes, only the name is sent.

local tlua = require "tlua"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"

local field, methods = types.field, types.methods

local M = {}

-- Returns a table that maps packages and their functions to the names by which another interpreter
-- finds them.
local function names_of_packages()
   local names = {}
   for name, library in pairs(package.loaded) do
      if type(library) == "table" and library ~= _G then
         names[library] = {tag = "package", name = name}
         for key, value in next, library do
            if type(value) == "function" and type(key) == "string" then
               names[value] = {tag = "member", name = name, key = key}
            end
         end
      end
   end
   for key, value in next, _G do
      if type(value) == "function" then names[value] = {tag = "global", key = key} end
   end
   return names
end

-- Packing -----------------------------------------------------------------------------------------

local pack

-- Returns the memory of a tensor or storage for another interpreter: the memory itself if it is to
-- be shared, otherwise a copy.
local function memory_of(state, elements)
   local key = tlua._storage_key(elements)
   local known = state.memory[key]
   if not known then
      local whole = tlua._storage_view(elements, false)
      known = state.shared and tlua.detach(whole) or tlua.clone(whole)
      state.memory[key] = known
   end
   return known
end

local function pack_pairs(state, made, value)
   made.keys, made.values = {}, {}
   for key, inner in next, value do
      made.keys[#made.keys + 1] = pack(state, key)
      made.values[#made.values + 1] = pack(state, inner)
   end
   return made
end

local function pack_function(state, made, fn)
   local dumped, code = pcall(string.dump, fn)
   if not dumped then tlua.raise "threads: a C function that no package contains cannot be sent" end
   made.tag, made.code, made.upvalues = "function", code, {}
   for i = 1, math.huge do
      local name, value = debug.getupvalue(fn, i)
      if not name then break end
      local id = debug.upvalueid(fn, i)
      local cell = state.cells[id]
      if not cell then
         cell = {}
         state.cells[id] = cell
         if rawequal(value, _G) then cell.globals = true else cell.value = pack(state, value) end
      end
      made.upvalues[i] = cell
   end
end

local function pack_tensor(state, made, x)
   made.tag, made.kind = "tensor", types.kind_of(x).name
   if methods.numel(x) == 0 then return end
   made.memory, made.offset = memory_of(state, x), methods.storage_offset(x)
   made.shape, made.stride = field(x, "shape"), methods.stride(x)
end

local function pack_table(state, made, value)
   local meta = debug.getmetatable(value)
   local class = meta and classes.metatype(value)
   if types.is_storage(value) then
      made.tag, made.kind = "storage", types.kind_of_meta[meta].name
      if value:size() > 0 then
         made.memory, made.offset = memory_of(state, value.elements),
            methods.storage_offset(value.elements)
         made.size = value:size()
      end
   elseif class then
      made.tag, made.name = "object", class.__typename
      local shared = state.shared
      -- Threads always share the count of an AtomicCounter, even where tensors are copied.
      state.shared = shared or class.__typename == "tds.AtomicCounter"
      pack_pairs(state, made, value)
      state.shared = shared
   elseif meta and type(meta.__metatable) == "table"
      and classes.getconstructortable(meta.__metatable.__typename or "") == value then
      made.tag, made.name = "class", meta.__metatable.__typename
   else
      made.tag, made.meta = "table", pack(state, meta)
      pack_pairs(state, made, value)
   end
end

function pack(state, value)
   local kind = type(value)
   if value == nil or kind == "boolean" or kind == "number" or kind == "string" then
      return value
   end
   if state.made[value] then return state.made[value] end
   local named = state.names[value]
   if named then return named end
   local made = {}
   state.made[value] = made
   if rawequal(value, _G) then
      made.tag = "globals"
   elseif kind == "function" then
      pack_function(state, made, value)
   elseif types.is_tensor(value) then
      if types.kind_of_meta[debug.getmetatable(value)] then
         pack_tensor(state, made, value)
      else
         made.tag, made.value = "raw", state.shared and value or tlua.clone(tlua.detach(value))
      end
   elseif kind == "table" then
      pack_table(state, made, value)
   else
      made.tag, made.value = "raw", value
   end
   return made
end

--- Packs values. If `shared` is true, tensors and storages keep their memory; otherwise it is
--- copied.
---@param shared boolean
---@param ... any
---@return table packed
function M.pack(shared, ...)
   local state = {shared = shared, made = {}, memory = {}, cells = {}, names = names_of_packages()}
   local list = {n = select("#", ...)}
   for i = 1, list.n do list[i] = pack(state, (select(i, ...))) end
   return list
end

-- Unpacking ---------------------------------------------------------------------------------------

local unpack

local function set_pairs(state, made, packed)
   for i, key in ipairs(packed.keys) do
      rawset(made, unpack(state, key), unpack(state, packed.values[i]))
   end
   return made
end

-- Returns a class; loads its package first if necessary.
local function class_named(name)
   local meta = classes.getmetatable(name)
   if not meta then
      local package_name = name:match "^[^.]+"
      pcall(require, package_name)
      meta = classes.getmetatable(name)
   end
   return meta or tlua.raise(("threads: this thread does not know the class %s; require its "
      .. "package in the first function of threads.Threads"):format(name))
end

local build = {}

function build.package(_, packed) return require(packed.name) end
function build.member(_, packed)
   return rawget(require(packed.name), packed.key) or tlua.raise(
      ("threads: this thread has no %s.%s"):format(packed.name, packed.key))
end
function build.global(_, packed)
   return rawget(_G, packed.key) or tlua.raise(
      ("threads: this thread has no global function %s"):format(packed.key))
end
function build.globals() return _G end
function build.raw(_, packed) return packed.value end
function build.class(_, packed)
   class_named(packed.name)
   return classes.getconstructortable(packed.name)
end

build["function"] = function(state, packed)
   local fn = assert(load(packed.code, "=(threads)", "b"))
   state.made[packed] = fn
   for i, cell in ipairs(packed.upvalues) do
      local first = state.cells[cell]
      if first then
         debug.upvaluejoin(fn, i, first[1], first[2])
      else
         state.cells[cell] = {fn, i}
         debug.setupvalue(fn, i, nil)
         if cell.globals then debug.setupvalue(fn, i, _G)
         else debug.setupvalue(fn, i, unpack(state, cell.value)) end
      end
   end
   return fn
end

function build.tensor(_, packed)
   local kind = types.kinds[packed.kind]
   if not packed.memory then return types.new(kind) end
   -- set_ would count as a change of the memory, and the backward pass of another thread may need
   -- it unchanged
   local made = tlua.as_strided(tlua.detach(packed.memory), packed.shape, packed.stride,
      packed.offset)
   return debug.setmetatable(made, kind.tensor)
end

function build.storage(_, packed)
   local kind = types.kinds[packed.kind]
   if not packed.memory then return types.storage(kind, tlua.empty(0, types.place(kind))) end
   return types.storage(kind, tlua.narrow(packed.memory, 1, packed.offset + 1, packed.size))
end

function build.object(state, packed)
   local made = setmetatable({}, class_named(packed.name))
   state.made[packed] = made
   return set_pairs(state, made, packed)
end

function build.table(state, packed)
   local made = {}
   state.made[packed] = made
   set_pairs(state, made, packed)
   return packed.meta and setmetatable(made, unpack(state, packed.meta)) or made
end

function unpack(state, packed)
   if type(packed) ~= "table" then return packed end
   local known = state.made[packed]
   if known ~= nil then return known end
   local made = build[packed.tag](state, packed)
   state.made[packed] = made
   return made
end

--- Returns the values that `pack` has packed.
---@param packed table
---@return any ...
function M.unpack(packed)
   local state, list = {made = {}, cells = {}}, {}
   for i = 1, packed.n do list[i] = unpack(state, packed[i]) end
   return table.unpack(list, 1, packed.n)
end

return M
