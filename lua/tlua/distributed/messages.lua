-- messages.lua - sends tensors from one rank to another. Messages with the same tag arrive in
-- order.

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

--- Sends a tensor to rank dst. Returns when the message is buffered. A large tensor is buffered
--- only after the receiver has begun to receive it.
---@param tensor Tensor
---@param dst integer  a rank of the world
---@param options? {group: distributed.ProcessGroup, tag: integer}
function M.send(...)
   send("send", false, ...)
end

--- Receives a tensor of the same size and dtype from rank src, or from any rank.
---@param tensor Tensor
---@param src? integer
---@param options? {group: distributed.ProcessGroup, tag: integer}
---@return integer rank  the sender
function M.recv(...)
   local from, group = receive("recv", false, ...)
   return group and group.ranks[from + 1]
end

--- Sends a tensor as send does, but returns a Work at once.
---@param tensor Tensor
---@param dst integer  a rank of the world
---@param options? {group: distributed.ProcessGroup, tag: integer}
---@return distributed.Work
function M.isend(...)
   return send("isend", true, ...)
end

--- Receives a tensor as recv does, but returns a Work at once.
---@param tensor Tensor
---@param src? integer
---@param options? {group: distributed.ProcessGroup, tag: integer}
---@return distributed.Work
function M.irecv(...)
   return (receive("irecv", true, ...))
end

--- Describes a call of isend or irecv for batch_isend_irecv.
---
---     local dist = torch.distributed
---     local op = dist.P2POp(dist.isend, torch.ones(2), 1)
---     print(torch.type(op), op.peer, op.tensor)
---     --> distributed.P2POp	1	tensor([1., 1.])
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

-- Returns the groups of a list of P2POps, without repetitions.
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

--- Starts all calls of a list. Returns their Works in the same order. With "nccl" the calls start
--- as one group call, so that ranks that send to each other do not deadlock.
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
