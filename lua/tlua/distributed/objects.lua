-- objects.lua - sends plain values between ranks: numbers, strings, booleans and tables of these.

local torch = require "tlua"
local args = require "tlua.args"
local groups = require "tlua.distributed.group"
local spans = require "tlua.profiler.spans"
local tree = require "tlua.io.tree"

local M = {}

local function pack(name, object)
   local entries, structure, message = tree.flatten({object})
   if not entries then torch.raise(("%s: %s"):format(name, message)) end
   if #entries > 0 then torch.raise(name .. ": a tensor cannot be part of an object") end
   return torch.io.bytes(structure)
end

local function unpack_object(bytes)
   local object, why = tree.rebuild(torch.distributed._string(bytes), {})
   if why then torch.raise("objects: " .. why) end
   return object[1]
end

local function size_of(bytes)
   return torch.tensor({bytes:numel()}, {dtype = "int64", device = "cpu"})
end

local function room(n)
   return torch.empty({n}, {dtype = "uint8", device = "cpu"})
end

local function sizes_of(group, bytes)
   local sizes = torch.empty({#group.ranks}, {dtype = "int64", device = "cpu"})
   group:run("all_gather", {inputs = size_of(bytes), outputs = sizes:split(1)})
   return sizes:tolist()
end

local take_all = args.signature "all_gather_object(object_list: table, obj: any, group: object?)"

--- Fills the list with the objects of all ranks, in rank order.
---@param object_list any[]
---@param obj any
---@param group? distributed.ProcessGroup
function M.all_gather_object(...)
   local a = take_all(...)
   local group = groups.resolve("all_gather_object", a.group)
   if not group then return end
   local bytes, parts = pack("all_gather_object", a.obj), {}
   for i, n in ipairs(sizes_of(group, bytes)) do parts[i] = room(n) end
   group:run("all_gather", {inputs = bytes, outputs = parts})
   for i, part in ipairs(parts) do a.object_list[i] = unpack_object(part) end
end

local take_gather = args.signature [[gather_object(obj: any, object_gather_list: table?,
   dst: count = 0, group: object?)]]

--- Fills rank dst's list with the objects of all ranks.
---@param obj any
---@param object_gather_list? any[]  the list to fill, on rank dst
---@param dst? integer
---@param group? distributed.ProcessGroup
function M.gather_object(obj, object_gather_list, ...)
   local empty = type(object_gather_list) == "table" and next(object_gather_list) == nil
   local a = take_gather(obj, not empty and object_gather_list or nil, ...)
   -- an empty table is the list to be filled, not a table of options
   if empty then a.object_gather_list = object_gather_list end
   local group = groups.resolve("gather_object", a.group)
   if not group then return end
   local root = groups.position("gather_object", "dst", group, a.dst)
   local here = group.group_rank == root
   if here and not a.object_gather_list then
      torch.raise "gather_object: object_gather_list: expected a table on rank dst, got nil"
   end
   local bytes, parts = pack("gather_object", a.obj), {}
   local sizes = sizes_of(group, bytes)
   if here then
      for i, n in ipairs(sizes) do parts[i] = room(n) end
   end
   group:run("gather", {inputs = bytes, outputs = parts, root = root})
   for i, part in ipairs(parts) do a.object_gather_list[i] = unpack_object(part) end
end

local take_broadcast = args.signature
   "broadcast_object_list(object_list: table, src: count = 0, group: object?)"

--- Copies the objects of rank src's list into the lists of all ranks.
---@param object_list any[]
---@param src? integer
---@param group? distributed.ProcessGroup
function M.broadcast_object_list(...)
   local a = take_broadcast(...)
   local group = groups.resolve("broadcast_object_list", a.group)
   if not group then return end
   local root = groups.position("broadcast_object_list", "src", group, a.src)
   local here = group.group_rank == root
   local bytes = here and pack("broadcast_object_list", a.object_list) or nil
   local size = bytes and size_of(bytes) or torch.empty({1}, {dtype = "int64", device = "cpu"})
   group:run("broadcast", {outputs = size, root = root})
   bytes = bytes or room(size:item())
   group:run("broadcast", {outputs = bytes, root = root})
   if here then return end
   for i, object in pairs(unpack_object(bytes)) do a.object_list[i] = object end
end

local take_scatter = args.signature [[scatter_object_list(scatter_object_output_list: table,
   scatter_object_input_list: table?, src: count = 0, group: object?)]]

--- Stores one object of rank src's list as the first item of each rank's output list.
---@param scatter_object_output_list any[]
---@param scatter_object_input_list? any[]  the objects to send, on rank src
---@param src? integer
---@param group? distributed.ProcessGroup
function M.scatter_object_list(...)
   local a = take_scatter(...)
   local group = groups.resolve("scatter_object_list", a.group)
   if not group then return end
   local root = groups.position("scatter_object_list", "src", group, a.src)
   local given = a.scatter_object_input_list
   if group.group_rank == root and (given == nil or #given ~= group:size()) then
      args.refuse("scatter_object_list", "scatter_object_input_list",
         ("a list of %d objects, one for each rank"):format(group:size()),
         given and ("%d of them"):format(#given))
   end
   local list = {given}
   M.broadcast_object_list(list, a.src, group)
   a.scatter_object_output_list[1] = list[1][group.group_rank + 1]
end

local take_send = args.signature
   "send_object_list(object_list: table, dst: count, group: object?, tag: integer = 0)"

--- Sends the objects of a list to rank dst, where recv_object_list receives them.
---@param object_list any[]
---@param dst integer
---@param group? distributed.ProcessGroup
---@param tag? integer
function M.send_object_list(...)
   local a = take_send(...)
   local bytes = pack("send_object_list", a.object_list)
   torch.distributed.send(size_of(bytes), a.dst, {group = a.group, tag = a.tag})
   torch.distributed.send(bytes, a.dst, {group = a.group, tag = a.tag})
end

local take_recv = args.signature
   "recv_object_list(object_list: table, src: count?, group: object?, tag: integer = 0)"

--- Fills a list with the objects that rank src has sent by send_object_list; without src, with
--- those of any rank.
---@param object_list any[]
---@param src? integer
---@param group? distributed.ProcessGroup
---@param tag? integer
---@return integer rank the sender
function M.recv_object_list(...)
   local a = take_recv(...)
   local size = torch.empty({1}, {dtype = "int64", device = "cpu"})
   local from = torch.distributed.recv(size, a.src, {group = a.group, tag = a.tag})
   local bytes = room(size:item())
   torch.distributed.recv(bytes, from, {group = a.group, tag = a.tag})
   for i, object in pairs(unpack_object(bytes)) do a.object_list[i] = object end
   return from
end

for name, fn in pairs(M) do M[name] = spans.watched("user", "distributed." .. name, fn) end

return M
