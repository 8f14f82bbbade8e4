-- messages.lua - tensors from one rank to another. Those of one tag arrive in their order.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local groups = require "tlua.distributed.group"

local M = {}

local take_send = args.signature
   "send(tensor: tensor, dst: count, group: object?, tag: integer = 0)"
local take_recv = args.signature
   "recv(tensor: tensor, src: count?, group: object?, tag: integer = 0)"

local function send(name, async, ...)
   local a = take_send(...)
   local group = groups.resolve(name, a.group)
   if not group then return nil end
   local to = groups.position(name, "dst", group, a.dst)
   return group:run("send", {inputs = a.tensor, root = to, tag = a.tag, async_op = async})
end

local function receive(name, async, ...)
   local a = take_recv(...)
   local group = groups.resolve(name, a.group)
   if not group then return nil end
   local from = a.src and groups.position(name, "src", group, a.src) or -1
   local received = group:run("recv",
      {outputs = a.tensor, root = from, tag = a.tag, async_op = async})
   return received, group
end

--- Sends a tensor to rank dst. Returns when it is on its way, which a large one is only when the
--- other receives it.
---@param tensor Tensor
---@param dst integer  a rank of the world
---@param options? {group: distributed.ProcessGroup, tag: integer}
function M.send(...)
   send("send", false, ...)
end

--- Receives a tensor of the same size and dtype from rank src, or from any.
---@param tensor Tensor
---@param src? integer
---@param options? {group: distributed.ProcessGroup, tag: integer}
---@return integer rank  whose it was
function M.recv(...)
   local from, group = receive("recv", false, ...)
   return group and group.ranks[from + 1]
end

--- As send, but returns a Work at once.
---@return distributed.Work
function M.isend(...)
   return send("isend", true, ...)
end

--- As recv, but returns a Work at once.
---@return distributed.Work
function M.irecv(...)
   return (receive("irecv", true, ...))
end

--- A call of isend or irecv that is to be made.
---@class distributed.P2POp
---@overload fun(op: function, tensor: Tensor, peer: integer, options?: table): distributed.P2POp
M.P2POp = class.class("distributed.P2POp")

local take_op = args.signature
   "distributed.P2POp(op: function, tensor: tensor, peer: count, group: object?, tag: integer = 0)"

function M.P2POp:__init(...)
   local a = take_op(...)
   if a.op ~= M.isend and a.op ~= M.irecv then
      args.refuse("distributed.P2POp", "op", "distributed.isend or distributed.irecv", a.op)
   end
   self.op, self.tensor, self.peer, self.group, self.tag = a.op, a.tensor, a.peer, a.group, a.tag
end

-- The groups of a list of P2POps, once each.
local function groups_of(list)
   local found, seen = {}, {}
   for _, op in ipairs(list) do
      local group = groups.resolve("batch_isend_irecv", op.group)
      if group and not seen[group] then
         seen[group] = true
         found[#found + 1] = group
      end
   end
   return found
end

--- Begins all calls of a list; their Works in the same order. By "nccl" they go as one, so that
--- ranks that send to each other do not wait for each other's turn.
---@param p2p_op_list distributed.P2POp[]
---@return distributed.Work[]
function M.batch_isend_irecv(p2p_op_list)
   local works = {}
   if type(p2p_op_list) ~= "table" then
      args.refuse("batch_isend_irecv", "p2p_op_list", "a list of P2POp", p2p_op_list)
   end
   for i, op in ipairs(p2p_op_list) do
      if not class.isinstance(op, M.P2POp) then
         args.refuse("batch_isend_irecv", ("p2p_op_list[%d]"):format(i), "a P2POp", op)
      end
   end
   local batched = groups_of(p2p_op_list)
   for _, group in ipairs(batched) do group.raw:batch(true) end
   local ok, message = pcall(function()
      for i, op in ipairs(p2p_op_list) do
         works[i] = op.op(op.tensor, op.peer, {group = op.group, tag = op.tag})
      end
   end)
   for _, group in ipairs(batched) do group.raw:batch(false) end
   if not ok then torch.raise((message:gsub("^[^\n]-:%d+: ", ""))) end
   return works
end

return M
