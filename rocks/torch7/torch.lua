-- torch.lua - Torch7's `torch`, as `require "torch7"` returns it: tensor types, mathematics, random
-- numbers, classes, files, tests and command lines. This table is another one than tlua's torch. A
-- program may use both, because their functions accept the same tensors.

local tlua = require "tlua"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local dispatch = require "tlua.torch7.dispatch"

local M = dispatch.functions
-- This entry is set before the other files are loaded, because they require this table.
package.loaded["tlua.torch7.torch"] = M

local methods, is_tensor = types.methods, types.is_tensor

for name, value in pairs(classes) do M[name] = value end
M.class, M.define = classes.define, nil
require "tlua.torch7.maths"
require "tlua.torch7.tensor"
require "tlua.torch7.printing"
for name, value in pairs(require "tlua.torch7.random") do M[name] = value end

for _, kind in ipairs(types.list) do
   M[kind.name .. "Tensor"] = classes.getconstructortable(kind.tensor.__typename)
   M[kind.name .. "Storage"] = classes.getconstructortable(kind.storage.__typename)
end

-- Default type -----------------------------------------------------------------------------------

--- Sets the type that torch.Tensor, torch.zeros and similar functions use by default.
---@param name string  the name of a type, such as "torch.FloatTensor"
function M.setdefaulttensortype(name)
   local kind = types.kind_named(name)
   if not kind then
      tlua.raise("torch.setdefaulttensortype: there is no type " .. tostring(name))
   end
   types.default = kind
   M.Tensor, M.Storage = M[kind.name .. "Tensor"], M[kind.name .. "Storage"]
end
M.setdefaulttensortype "torch.DoubleTensor"

--- Returns the name of the default type.
---@return string
function M.getdefaulttensortype() return types.default.tensor.__typename end

function M.isTensor(value) return is_tensor(value) end
M.isStorage = types.is_storage

--- Returns the elements of a tensor or storage as a table.
function M.totable(value)
   if is_tensor(value) or types.is_storage(value) then return value:totable() end
   tlua.raise("torch.totable: expected a tensor or a storage, got " .. type(value))
end

-- Constructions ----------------------------------------------------------------------------------

-- Wraps a function that creates a tensor. The first argument of the returned function may be a
-- tensor that receives the result; otherwise the result has the default type.
local function with_result(make)
   return function(first, ...)
      if is_tensor(first) then return dispatch.store(first, make(types.kind_of(first), ...)) end
      local kind = types.default
      return debug.setmetatable(make(kind, first, ...), kind.tensor)
   end
end

for _, name in ipairs {"zeros", "ones"} do
   local make = tlua[name]
   M[name] = with_result(function(kind, ...) return make(types.sizes(name, ...),
      types.place(kind)) end)
end

for _, name in ipairs {"rand", "randn"} do
   local make = tlua[name]
   M[name] = function(...)
      local generator, rest = nil, {...}
      if classes.typename(rest[1]) == "torch.Generator" then
         generator = table.remove(rest, 1).generator
      end
      local into = is_tensor(rest[1]) and table.remove(rest, 1) or nil
      local kind = into and types.kind_of(into) or types.default
      local made = make(types.sizes(name, table.unpack(rest)),
         {dtype = kind.dtype, generator = generator})
      if into then return dispatch.store(into, made) end
      return debug.setmetatable(methods.to(made, types.place(kind)), kind.tensor)
   end
end

local function check_numbers(name, ...)
   for i = 1, 2 do
      local value = select(i, ...)
      if type(value) ~= "number" then
         tlua.raise(("torch.%s: expected numbers as the ends, got %s"):format(name,
            classes.type(value)))
      end
   end
end

M.range = with_result(function(kind, first, last, step)
   check_numbers("range", first, last)
   local list = tlua.range(first + 0.0, last + 0.0, step or 1, {dtype = "float64"})
   return methods.to(list, types.place(kind))
end)
M.linspace = with_result(function(kind, first, last, n)
   check_numbers("linspace", first, last)
   return tlua.linspace(first, last, n or 100, types.place(kind))
end)
M.logspace = with_result(function(kind, first, last, n)
   check_numbers("logspace", first, last)
   return tlua.logspace(first, last, n or 100, types.place(kind))
end)
M.eye = with_result(function(kind, n, m) return tlua.eye(n, m or n, types.place(kind)) end)

function M.randperm(...)
   local into, generator, n
   for _, value in ipairs {...} do
      if is_tensor(value) then into = value
      elseif type(value) == "number" then n = value
      elseif classes.typename(value) == "torch.Generator" then generator = value.generator
      else
         tlua.raise("torch.randperm: expected a count, got " .. classes.type(value))
      end
   end
   if not math.tointeger(n) or n < 1 then
      tlua.raise("torch.randperm: expected a count, got " .. tostring(n))
   end
   local made = tlua.randperm(n, {dtype = "int64", generator = generator})
   if into then return dispatch.store(into, made) end
   return debug.setmetatable(methods.to(made, types.place(types.default)), types.default.tensor)
end

--- Draws column numbers of the matrix p; each row of p gives their probabilities. The arguments are
--- ([res,] p, n [, with replacement]).
function M.multinomial(...)
   local list = {...}
   if classes.typename(list[1]) == "torch.Generator" then table.remove(list, 1) end
   local into = is_tensor(list[2]) and table.remove(list, 1) or nil
   local made = tlua.multinomial(list[1], list[2], list[3] == true)
   if into then return dispatch.store(into, made) end
   return types.tag(made)
end

--- Returns a state for the given probabilities, from which multinomialAlias(result, state) draws.
function M.multinomialAliasSetup(probs) return {probs:clone(), probs:clone():cumsum(1)} end

function M.multinomialAlias(into, state)
   local draws = tlua.multinomial(state[1], into:nElement(), true)
   return into:copy(draws)
end

-- These methods fill the tensor, such as x:zeros(2, 3).
for _, name in ipairs {"zeros", "ones", "rand", "randn"} do
   types.Tensor[name] = function(x, ...) return M[name](x, ...) end
end
for _, name in ipairs {"range", "linspace", "logspace", "eye", "randperm", "multinomial"} do
   types.Tensor[name] = function(x, ...) return M[name](x, ...) end
end

-- Concatenates tensors. The arguments are ([res,] a, b [, dim]), or ([res,] list [, dim]) for a
-- table.
do
   local pair = M.cat
   local function of_list(list, d)
      if #list == 0 then return M.Tensor() end
      local last = 0
      for i = 1, #list do
         if not is_tensor(list[i]) then
            tlua.raise(("torch.cat: element %d: expected a tensor, got %s"):format(i,
               classes.type(list[i])))
         end
         last = math.max(last, list[i]:dim())
      end
      local made = list[1]:clone()
      local kept = {}
      for _, x in ipairs(list) do
         if x:nElement() > 0 then kept[#kept + 1] = x end
      end
      if #kept == 0 then return made end
      return debug.setmetatable(tlua.cat(kept, d and d > 0 and d or last),
         debug.getmetatable(list[1]))
   end
   function M.cat(first, second, third, fourth)
      if type(first) == "table" then return of_list(first, second) end
      if type(second) == "table" then return dispatch.store(first, of_list(second, third)) end
      if is_tensor(third) then return dispatch.store(first, M.cat(second, third, fourth)) end
      if third == nil then return pair(first, second) end
      return pair(first, second, third)
   end
   types.Tensor.cat = M.cat
end

-- These methods of tensors are also functions of torch.
for name in ([[apply map map2 narrow select sub_part=sub squeeze unsqueeze transpose t index gather
   scatter maskedSelect nonzero view expand expandAs repeatTensor split chunk unfold permute
   size stride dim clone isSameSizeAs typeAs]]):gmatch "%S+" do
   local ours = name:match "^[^=]+$"
   if ours and M[ours] == nil then M[ours] = types.Tensor[ours] end
end
for name in ([[copy fill zero numel nElement uniform_ indexCopy indexAdd indexFill maskedFill
   maskedCopy storage contiguous]]):gmatch "%a+" do
   if M[name] == nil then M[name] = types.Tensor[name] end
end

types.install()

-- System -----------------------------------------------------------------------------------------

local started = tlua.io.clock()

--- Starts the clock that torch.toc reads, and returns the time.
---@return number seconds
function M.tic()
   started = tlua.io.clock()
   return started
end

--- Returns the seconds since torch.tic or since a given time.
---@param since? number
---@return number seconds
function M.toc(since) return tlua.io.clock() - (since or started) end

function M.getnumthreads() return tlua.get_num_threads() end
function M.setnumthreads(n) tlua.set_num_threads(n) end
function M.getnumcores() return tlua.get_num_threads() end
function M.setheaptracking() end

--- Returns a number that identifies an object. The number is the same for all references to the
--- object.
---@param object any
---@return integer
function M.pointer(object)
   if type(object) == "string" or type(object) == "number" or object == nil then
      tlua.raise("torch.pointer: expected an object, got " .. type(object))
   end
   if is_tensor(object) then return tonumber(("%p"):format(object)) end
   if types.is_storage(object) then
      return tonumber(("%p"):format(types.storage_key(object)))
   end
   return tonumber(("%p"):format(object))
end

function M.version(object)
   local meta = classes.metatype(object)
   return meta and meta.__version
end

local require_file = require "tlua.torch7.loading"
M.packageLuaPath, M.include = require_file.packageLuaPath, require_file.include

for _, name in ipairs {"timing", "files", "serialization", "cmdline", "tester"} do
   for key, value in pairs(require("tlua.torch7." .. name)) do M[key] = value end
end

return M
