-- load.lua - torch.distributed.checkpoint.load, which reads a checkpoint on any number of ranks.

local torch = require "tlua"
local args = require "tlua.args"
local boxes = require "tlua.distributed.checkpoint.boxes"
local entries = require "tlua.distributed.checkpoint.entries"
local files = require "tlua.distributed.checkpoint.files"
local groups = require "tlua.distributed.group"
local placement = require "tlua.distributed.placement"

local M = {}

local function text_of(shape) return "(" .. table.concat(shape, ", ") .. ")" end

-- Returns a list of messages about tensors that cannot be loaded: tensors that the checkpoint lacks
-- or has in another shape, and tensors without memory (on the meta device).
local function check(list, index)
   local faults = {}
   for _, entry in ipairs(list) do
      local saved = index.tensors[entry.name]
      if not saved then
         faults[#faults + 1] = ("%s is missing"):format(entry.name)
      elseif text_of(saved.shape) ~= text_of(entry.place.shape) then
         faults[#faults + 1] = ("%s: expected shape %s, got %s"):format(entry.name,
            text_of(entry.place.shape), text_of(saved.shape))
      elseif entry.tensor.is_meta then
         faults[#faults + 1] = ("%s is on the meta device and has no memory: make it by "
            .. "module:to_empty{device = ...}"):format(entry.name)
      end
   end
   table.sort(faults)
   return faults
end

-- Creates the tensors into which the saved state of an optimizer is to be loaded. Returns a list of
-- these tensors with their names and placements, and the optimizer's state: a table, indexed by
-- parameter position, that holds the same tensors.
local function optimizer_entries(entry, index)
   local path, optimizer, names = table.unpack(entry)
   local list, states, positions = {}, {}, {}
   for position, p in optimizer:each() do
      local here = not optimizer.owns or optimizer:owns(position)
      if here then positions[("%s.state.%s"):format(path, names[position])] = {position, p} end
   end
   local function find(name)
      local owner, key = name:match "^(.*)%.([^.]+)$"
      local at = owner and positions[owner]
      if not at then return nil end
      states[at[1]] = states[at[1]] or {}
      return states[at[1]], key, at[2]
   end
   for name, saved in pairs(index.tensors) do
      local state, key, p = find(name)
      if state then
         local place = placement.of(p)
         local tensor
         if #saved.shape > 0 and text_of(saved.shape) == text_of(place.shape) then
            tensor = torch.empty_like(p:detach(), {dtype = saved.dtype})
         else
            tensor = torch.empty(saved.shape, {dtype = saved.dtype})
            place = placement.of(tensor)
         end
         state[key] = tensor
         list[#list + 1] = {name = name, tensor = tensor, place = place}
      end
   end
   for name, value in pairs(index.values) do
      local state, key = find(name)
      if state then state[key] = value end
   end
   return list, states
end

-- Loads the options of an optimizer's parameter groups.
local function load_options(entry, index)
   local path, optimizer, names = table.unpack(entry)
   local position = 0
   for _, group in ipairs(optimizer.param_groups) do
      local name = names[position + 1]
      for key, own in pairs(group) do
         local saved = name and index.values[("%s.options.%s.%s"):format(path, name, key)]
         if saved ~= nil then
            if torch.is_tensor(own) then own:fill_(saved) else group[key] = saved end
         end
      end
      position = position + #group.params
   end
end

-- Returns a function that returns the tensor of a chunk, a part of a tensor in one of the
-- checkpoint's files. Each file is opened once.
local function reader(folder)
   local open = {}
   return function(chunk)
      if not open[chunk.file] then
         open[chunk.file] = torch.load(files.path(folder, chunk.file))
      end
      local tensor = open[chunk.file][chunk.name]
      if not tensor then
         torch.raise(("load: %s has no tensor %s"):format(files.path(folder, chunk.file),
            chunk.name))
      end
      return tensor
   end
end

local function overlap(a, b)
   for d = 1, #a.size do
      if a.offset[d] >= b.offset[d] + b.size[d] or b.offset[d] >= a.offset[d] + a.size[d] then
         return false
      end
   end
   return true
end

-- Reads all tensors. The bytes are first read into copies, so that a damaged file changes no
-- tensor.
local function read_all(list, index, read)
   local copies = {}
   for _, entry in ipairs(list) do
      for _, box in ipairs(boxes.of_tensor(entry.place, entry.tensor)) do
         for _, chunk in ipairs(index.tensors[entry.name].chunks) do
            if overlap(box, chunk) then copies[#copies + 1] = {box, chunk, read(chunk)} end
         end
      end
   end
   return copies
end

local take = args.signature [[load(state_dict: table, checkpoint_id: string,
   process_group: object?)]]

--- Reads a checkpoint into the modules, optimizers and tensors of a table, in place, and its plain
--- values into the table. The number of ranks and the splitting of the model may differ from the
--- run that saved it. A missing or mismatched entry is an error on all ranks, and changes nothing.
---@param state_dict table
---@param options {checkpoint_id: string, process_group: distributed.ProcessGroup}
function M.load(...)
   local a = take(...)
   local group = torch.distributed.is_initialized() and groups.resolve("load", a.process_group)
   local talk = files.talk(group)
   local list, optimizers, plain = entries.collect("load", a.state_dict)
   local index, why = files.read_index(a.checkpoint_id)
   local faults, states, copies = {why}, {}, {}
   if index then
      faults = check(list, index)
      for i, entry in ipairs(optimizers) do
         local more
         more, states[i] = optimizer_entries(entry, index)
         table.move(more, 1, #more, #list + 1, list)
      end
   end
   if #faults == 0 then
      local ok, result = pcall(read_all, list, index, reader(a.checkpoint_id))
      if ok then copies = result else faults = {(tostring(result):gsub("^[^\n]-:%d+: ", ""))} end
   end
   local all = talk.gather(faults)
   for rank = 1, #all do
      if #all[rank] > 0 then
         local text = table.concat(all[rank], "; ", 1, math.min(#all[rank], 10))
         torch.raise(("load: %s: %s"):format(a.checkpoint_id, text))
      end
   end
   local _ <close> = torch.no_grad()
   for _, copy in ipairs(copies) do boxes.copy(copy[1], copy[2], copy[3]) end
   for i, entry in ipairs(optimizers) do
      local optimizer = entry[2]
      for position in optimizer:each() do
         if states[i][position] then
            if optimizer.set_local_state then
               optimizer:set_local_state(position, states[i][position])
            else
               optimizer.state[position] = states[i][position]
            end
         end
      end
      load_options(entry, index)
   end
   for _, item in ipairs(plain) do
      local value = index.values[item[1]]
      if torch.type(item[2]) == "torch.device" then value = torch._to_device(value) end
      if value ~= nil then item[3][item[4]] = value end
   end
end

return M
