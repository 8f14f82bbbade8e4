-- state.lua - implements state_dict and load_state_dict, which save and load parameters and
-- persistent buffers by their paths.
--
-- Positions in paths count from 1. With `names = "pytorch"` they count from 0, so that weights can
-- be exchanged with PyTorch without renaming.

local torch = require "tlua"
local args = require "tlua.args"
local Buffer = require "tlua.nn.Buffer"
local members = require "tlua.nn.members"
local Parameter = require "tlua.nn.Parameter"
local state_hooks = require "tlua.nn.state_hooks"
local Uninitialized = require "tlua.nn.Uninitialized"

local Module <const> = members.Module -- this file adds methods to Module

-- Calls visit(path, tensor, module, field) for each tensor that is saved. A shared tensor is
-- visited once for each of its paths.
local function each(module, prefix, shift, visit)
   members.visit(module, prefix, {value = function(path, value, owner, name)
      if type(value) ~= "userdata" or not torch.is_tensor(value) then return end
      if members.counts_as_parameter(owner, name, value)
            or members.buffer_kind(owner, name, value) == "persistent" then
         visit(path, value, owner, name)
      else
         members.check_replaced(owner, name, value)
      end
   end}, shift)
end

-- Returns three tables whose keys are paths of saved tensors. The first has all tensors. The second
-- has the modules of the tensors that have no shape yet. The third has {module, field} for each
-- tensor that its module checks before loading. The module's method _expects(field, tensor) returns
-- descriptions of the expected and of the given value, or nil if the tensor fits.
local function state_of(module, prefix, shift)
   local state, lazy, checks = {}, {}, {}
   each(module, prefix, shift, function(path, tensor, owner, field)
      state[path] = tensor
      if Uninitialized.is_lazy(tensor) then lazy[path] = owner end
      if owner._expects then checks[path] = {owner, field} end
   end)
   return state, lazy, checks
end

-- Returns the number to subtract from positions in paths: 1 for names = "pytorch", otherwise 0.
local function shift_of(title, names)
   if names == nil then return 0 end
   if names ~= "pytorch" then args.refuse(title, "names", '"pytorch" or nil', names) end
   return 1
end

local function shape_text(tensor)
   return "(" .. table.concat(tensor.shape, ", ") .. ")"
end

-- Renames weight_g and weight_v in a state. These are the names of nn.utils.weight_norm; if the
-- module has parametrizations.weight_norm instead, they become the names of that parametrization.
local function with_new_names(own, state)
   local renamed
   for path in pairs(own) do
      local prefix, name = path:match "^(.-)parametrizations%.([^.]+)%.original0$"
      if prefix and state[path] == nil then
         local old, new = prefix .. name, prefix .. "parametrizations." .. name .. ".original"
         local length, direction = state[old .. "_g"], state[old .. "_v"]
         if own[new .. "1"] and state[new .. "1"] == nil and length ~= nil and direction ~= nil then
            if not renamed then
               renamed = {}
               for key, value in pairs(state) do renamed[key] = value end
            end
            renamed[new .. "0"], renamed[new .. "1"] = length, direction
            renamed[old .. "_g"], renamed[old .. "_v"] = nil, nil
         end
      end
   end
   return renamed or state
end

local function sorted_keys(set)
   local keys = {}
   for key in pairs(set) do keys[#keys + 1] = key end
   table.sort(keys)
   return keys
end

-- Returns a description of the value that should replace a state's value, such as "a tensor".
-- Returns nil if the value fits, or if only its shape or its layout is wrong.
local function expectation(tensor, value, check)
   if not torch.is_tensor(value) then return "a tensor" end
   local kind = args.kind_of(tensor)
   if kind ~= args.kind_of(value) and not (torch._sparse_parts(tensor)
      or torch._sparse_parts(value)) then
      return kind and "a " .. kind or "a dense tensor"
   end
   if check and not value.is_meta then return check[1]:_expects(check[2], value) end
end

-- Returns four sorted lists of paths: missing, unexpected, of a different shape, and with other
-- faults. As in PyTorch, a state may lack the counts of batches that normalisations have seen,
-- since files of PyTorch's earlier versions lack them.
local function differences(own, lazy, checks, state)
   local missing, unexpected, mismatched, refused = {}, {}, {}, {}
   for path, tensor in pairs(own) do
      local value = state[path]
      if value == nil then
         if not path:find "%f[^.\0]num_batches_tracked$" then missing[#missing + 1] = path end
      elseif expectation(tensor, value, checks[path]) then
         local expected, got = expectation(tensor, value, checks[path])
         refused[#refused + 1] = ("%s: expected %s, got %s"):format(path, expected,
            got or args.describe(value))
      elseif not lazy[path] and shape_text(tensor) ~= shape_text(value) then
         mismatched[#mismatched + 1] = ("%s: expected shape %s, got %s"):format(
            path, shape_text(tensor), shape_text(value))
      elseif torch._sparse_parts(tensor) and tensor.layout ~= value.layout then
         mismatched[#mismatched + 1] = ("%s: expected layout %s, got %s"):format(
            path, tensor.layout, value.layout)
      end
   end
   for path in pairs(state) do
      if not own[path] then unexpected[#unexpected + 1] = tostring(path) end
   end
   table.sort(missing)
   table.sort(unexpected)
   table.sort(mismatched)
   table.sort(refused)
   return missing, unexpected, mismatched, refused
end

-- Raises an error if a tensor is to be copied from or to the meta device, where tensors have no
-- memory, unless both tensors are there.
local function check_data(own, state)
   for _, path in ipairs(sorted_keys(own)) do
      local value = state[path]
      if value and own[path].is_meta and not value.is_meta then
         torch.raise(("load_state_dict: %s is on the meta device and has no memory to copy to: "
            .. "make it by module:to_empty{device = ...}, or load with {assign = true}, which puts "
            .. "the state's tensors in its place"):format(path))
      elseif value and value.is_meta and not own[path].is_meta then
         torch.raise(("load_state_dict: %s of the state is on the meta device and has no data to "
            .. "copy"):format(path))
      end
   end
end

-- Returns advice for a state that does not fit, but fits better if its positions are taken to count
-- from 0 instead of 1, or from 1 instead of 0.
local function guess(module, state, shift, faults)
   local own, lazy, checks = state_of(module, "", 1 - shift)
   local missing, unexpected, mismatched, refused = differences(own, lazy, checks, state)
   if #missing + #unexpected + #mismatched + #refused >= faults then return "" end
   return shift == 0 and '; its positions seem to count from 0: try {names = "pytorch"}'
      or '; its positions seem to count from 1: try it without names = "pytorch"'
end

-- Returns a tensor detached from autograd. If the tensor is this rank's part of a parameter that is
-- split over several ranks, this is recorded for the result too (see distributed/placement.lua).
local function detached(tensor)
   local copy = tensor:detach()
   local placement = package and package.loaded["tlua.distributed.placement"]
   return placement and placement.inherit(copy, tensor) or copy
end

local take_save = args.signature "state_dict(prefix: string = '', names: string?)"
local take_load = args.signature [[load_state_dict(strict: boolean = true, names: string?,
   assign: boolean = false)]]

-- Puts the tensors of a state into the fields of a module. Shared parameters stay shared, and each
-- parameter keeps its requires_grad.
local function assign(module, state, shift)
   local places, new = {}, {}
   each(module, "", shift, function(path, tensor, owner, field)
      places[#places + 1] = {path, tensor, owner, field}
   end)
   for _, place in ipairs(places) do
      local path, tensor, owner, field = table.unpack(place)
      local value = state[path]
      if value ~= nil and not new[tensor] then
         if tensor.is_parameter then
            new[tensor] = Parameter(value, tensor.requires_grad)
         else
            new[tensor] = value:detach()
            Buffer.mark(new[tensor], tensor)
         end
      end
      if value ~= nil then owner[field] = new[tensor] end
   end
end

--- Returns the module's state: a table from paths, such as "3.conv.weight", to tensors that
--- share the memory of its parameters and persistent buffers. With `{names = "pytorch"}`
--- positions in paths count from 0, as PyTorch's do.
---@param options? string|{prefix: string, names: string}  a string is the prefix, a path that comes
--- before all paths; a dot at its end may be left out
---@return table<string, Tensor>
function Module:state_dict(options)
   local a = take_save(options)
   local state, prefix = {}, a.prefix:gsub("%.$", "")
   local shift = shift_of("state_dict", a.names)
   state_hooks.before_save(self, prefix, shift)
   each(self, prefix, shift, function(path, tensor) state[path] = detached(tensor) end)
   state_hooks.after_save(self, state, prefix, shift)
   return state
end

--- Copies a state into the module's parameters and buffers. A state that does not fit is an error
--- that lists all differences, and changes nothing. With `{strict = false}` missing and unexpected
--- paths are skipped, and both lists are returned. With `{names = "pytorch"}` positions in paths
--- count from 0, as in the files that PyTorch writes. With `{assign = true}` the state's tensors
--- themselves replace the parameters and buffers, and keep their own device and dtype; make the
--- optimizer afterwards. A weight that parametrizations.weight_norm has split also accepts weight_g
--- and weight_v, the names of nn.utils.weight_norm.
---@param state table<string, Tensor>
---@param options? {strict: boolean, names: string, assign: boolean}
---@return string[] missing
---@return string[] unexpected
function Module:load_state_dict(state, options)
   local title <const> = "load_state_dict"
   if type(state) ~= "table" then args.refuse(title, "state", "a table", state) end
   local a = take_load(options)
   local shift = shift_of(title, a.names)
   local own, lazy, checks = state_of(self, "", shift)
   local extras, lacking
   state, extras, lacking = state_hooks.before_load(self, state, shift)
   state = with_new_names(own, state)
   local missing, unexpected, mismatched, refused = differences(own, lazy, checks, state)
   table.move(lacking, 1, #lacking, #missing + 1, missing)

   local faults = {}
   local function add(what, list)
      if #list > 0 then faults[#faults + 1] = what .. ": " .. table.concat(list, ", ") end
   end
   if a.strict then
      add("missing", missing)
      add("unexpected", unexpected)
   end
   add("of another shape", mismatched)
   add("not accepted", refused)
   if #faults > 0 then
      torch.raise(("load_state_dict: the state does not fit %s: %s%s"):format(
         torch.type(self), table.concat(faults, "; "),
         guess(self, state, shift, #missing + #unexpected + #mismatched + #refused)))
   end

   if a.assign then
      assign(self, state, shift)
      own = {}
   end
   check_data(own, state)
   local _ <close> = torch.no_grad()
   for _, path in ipairs(sorted_keys(own)) do
      local tensor, value = own[path], state[path]
      -- An uninitialized parameter is saved as an empty tensor, from which nothing can be copied.
      local waits = value and lazy[path] and value:dim() == 1 and value:numel() == 0
      if value and not waits then
         if lazy[path] then Uninitialized.materialize(tensor, value.shape) end
         tensor:copy_(value)
      end
   end
   state_hooks.after_load(self, extras, missing, unexpected, shift)
   return missing, unexpected
end
