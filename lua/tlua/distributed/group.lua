-- group.lua - process groups: their ranks, and how processes join and leave them.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local store = require "tlua.distributed.store"
local notice = require "tlua.utils.notice"

local M = {}

--- A group of ranks that communicate with one another: the result of torch.distributed.new_group.
---
---     local dist = torch.distributed
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local group = dist.new_group {0}
---     print(dist.get_world_size(group), group.ranks[1])
---     dist.destroy_process_group()
---     --> 1	0
---@class distributed.ProcessGroup
---@field raw userdata  the group in C
---@field ranks integer[]  the world ranks of its members
---@field store distributed.Store  the store by which the ranks found one another
local ProcessGroup = class.class("distributed.ProcessGroup")

--- new_group returns NON_GROUP_MEMBER on ranks that are outside of the group. Collectives with this
--- value as the group do nothing.
---@names distributed.GroupMember.NON_GROUP_MEMBER
M.GroupMember = {NON_GROUP_MEMBER = setmetatable({}, {
   __tostring = function() return "GroupMember.NON_GROUP_MEMBER" end,
})}
local outside <const> = M.GroupMember.NON_GROUP_MEMBER

--- `group.WORLD` is the group of all ranks, or nil before init_process_group, as in PyTorch.
---@names distributed.group
M.group = setmetatable({}, {names = {WORLD = true}})

local joined = 0   -- number of worlds joined so far
local children = 0 -- number of groups made in this world
local all = {}     -- all groups; the world is the first one

-- `called` is the name of the back end that the user has given, and `backend` tlua's own name of
-- it.
function ProcessGroup:__init(parent, name, members, rank, timeout, backend, called)
   self.ranks, self.name, self.timeout, self.backend = members, name, timeout, backend
   self.called = called or backend
   self.position = {}
   for i, number in ipairs(members) do self.position[number] = i - 1 end
   self.group_rank = self.position[rank]
   self.store = parent
   self.detail = M.get_debug_level() == "detail"
   self.raw = torch.distributed._join(parent.raw, parent:_key(name), self.group_rank, #members,
      members, timeout, self.detail, backend)
end

-- Leaves a group. The last rank that leaves deletes the group's keys; if the process that served
-- the store has ended, the keys are already gone.
local function leave(group)
   group.raw:leave()
   local prefix = group.store:_key(group.name) .. "/"
   pcall(function()
      if group.store.raw:add(prefix .. "left", 1) == #group.ranks then
         group.store.raw:clear(prefix)
      end
   end)
end

local call_options <const> = {
   inputs = true, outputs = true, op = true, root = true, tag = true, timeout = true,
   async_op = true,
}

--- Makes a collective call or sends or receives a message. The library's own collectives use it;
--- programs use the functions of torch.distributed, which check shapes and ranks first.
---@param kind string  "all_reduce", "broadcast", "send", ...
---@param call table  inputs, outputs: a tensor or a list of tensors, as the kind of call needs; a
--- tensor that is reduced or broadcast in place is an output. op: "sum" or another reduction. root:
--- a position in the group, from 0; for a message, the other rank, or -1 for any. tag: the tag of a
--- message. timeout: in seconds, the group's by default. async_op: whether to return at once
---@return distributed.Work|integer  a Work if async_op is set, otherwise the position of a
--- message's sender
function ProcessGroup:run(kind, call)
   for name in next, call do
      if not call_options[name] then
         args.unknown_option("ProcessGroup.run", name, call_options)
      end
   end
   return self.raw:run(kind, call.inputs, call.outputs, call.op, call.root, call.tag, call.timeout,
      call.async_op)
end

--- Returns the number of ranks.
---@return integer
function ProcessGroup:size()
   return #self.ranks
end

--- Returns this process's rank in the group, from 0.
---@return integer
function ProcessGroup:rank()
   return self.group_rank
end

--- For a group of the back end "record": returns, for each kind of call made, {calls =, bytes =,
--- messages =, sent =}. `messages` is the number of messages that ring algorithms send to other
--- ranks, and `sent` the number of bytes in these messages. The barrier has no bytes.
---@return table<string, {calls: integer, bytes: integer, messages: integer, sent: integer}>
function ProcessGroup:traffic()
   local traffic = self.raw:traffic()
   if not traffic then
      torch.raise(("traffic: a group of \"%s\" records nothing; expected \"record\""):format(
         self.backend))
   end
   return traffic
end

function ProcessGroup:__tostring()
   return ("ProcessGroup(%s, ranks %s)"):format(self.name, table.concat(self.ranks, ", "))
end

--- Returns the group that a function is to use; nil means the world. Returns nothing if this rank
--- is outside of the group.
---@return distributed.ProcessGroup?
function M.resolve(name, group)
   if group == nil then
      if not M.group.WORLD then
         torch.raise(name .. ": there is no process group; call init_process_group before")
      end
      return M.group.WORLD
   end
   if group == outside then return nil end
   if not class.isinstance(group, ProcessGroup) then
      args.refuse(name, "group", "a process group", group)
   end
   return group
end

--- Returns the position, from 0, that a rank of the world has in a group. Raises an error if the
--- rank is not in the group.
function M.position(name, what, group, rank)
   local number = math.tointeger(rank)
   local position = number and group.position[number]
   if not position then
      args.refuse(name, what, ("a rank of the group (%s)"):format(
         table.concat(group.ranks, ", ")), rank)
   end
   return position
end

-- Joining --------------------------------------------------------------------------------------

local backends = {shm = true, mpi = true, nccl = true, record = true}

local function check_backend(name, backend)
   if backends[backend] or backend == "gloo" then return end
   torch.raise(("%s: backend: expected \"shm\" (the ranks of one machine), \"mpi\" (of those " ..
      "that mpirun or srun has started), \"nccl\" (a GPU each), \"gloo\" (the one of the first " ..
      "two that fits) or \"record\", got %q"):format(name, backend))
end

-- Returns the name of the back end that is used if the user gives none: "mpi" if mpirun or srun has
-- started ranks on several machines, otherwise "shm".
local function default_backend()
   return store.hosts() == 2 and not os.getenv "WORLD_SIZE" and "mpi" or "shm"
end

-- Returns tlua's name of a back end. "gloo", the name in PyTorch's programs, means the default back
-- end for the CPU.
local function engine_of(backend)
   return backend == "gloo" and default_backend() or backend
end

local noted = false

-- Writes once to the standard error, on rank 0, that the back end has another name in tlua.
local function note_engine(group)
   if noted or group.called == group.backend or group.group_rank ~= 0 then return end
   notice('init_process_group: "%s" is the back end "%s" here', group.called, group.backend)
   noted = true
end

--- The default timeout of calls, in seconds.
---@names distributed.default_pg_timeout
M.default_pg_timeout = 1800

local function default_timeout()
   return tonumber(os.getenv "TLUA_DISTRIBUTED_TIMEOUT") or M.default_pg_timeout
end

local take_init = args.signature [[init_process_group(backend: string?,
   init_method: string?, rank: integer?, world_size: integer?, timeout: number?, store: object?,
   device_id: any?, group_name: string?)]]

-- Checks that the option `name` is an integer of at least 0. As in PyTorch, -1 means that the
-- option is not set, so -1 is removed.
local function count(a, name)
   local n = a[name]
   if n == -1 then a[name] = nil end
   if n and n < -1 then args.refuse("init_process_group", name, "an integer from 0 on", n) end
end

-- Joins the world's group through the store that rendezvous returns.
local function try_to_join(a, name)
   local rank, size, found = store.rendezvous(a)
   if size < 1 then args.refuse("init_process_group", "world_size", "at least 1", size) end
   if rank < 0 or rank >= size then
      torch.raise(("init_process_group: rank: expected 0 to %d, got %d"):format(size - 1, rank))
   end
   local members = {}
   for i = 1, size do members[i] = i - 1 end
   local ok, group = pcall(ProcessGroup, found, name, members, rank, a.timeout, a.backend,
      a.called)
   if ok then return group end
   if not a.store then found:close() end
   return nil, (tostring(group):gsub("^[^\n]-:%d+: ", ""))
end

-- Joins the world's group. If rendezvous has found the store of an earlier world that is about to
-- close, tries again.
local function join_world(a)
   joined, children = joined + 1, 0
   local name = ("world%d.%s"):format(joined, os.getenv("TLUA_RESTART_COUNT") or "0")
   local deadline = torch.io.clock() + a.timeout
   while true do
      local group, why = try_to_join(a, name)
      if group then return group end
      local gone = why:find("the connection was closed", 1, true)
      if not gone or torch.io.clock() >= deadline then torch.raise(why) end
      torch.distributed._sleep(0.01)
   end
end

--- Joins the group of all processes of a program, and waits until all have joined. The processes
--- find one another by the environment (`env://`: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as
--- `tlua run` sets them, or the variables of mpirun and srun), a file (`file:///PATH`), an address
--- (`tcp://HOST:PORT`) or a store. The back ends are:
--- * "shm", the default: for processes of one machine.
--- * "mpi": for processes that mpirun or srun has started, on one machine or many; needs no store.
--- * "nccl": for ranks with one GPU each, `device_id` or the current one. NCCL calls are queued on
---   streams, and the program does not wait for them.
--- * "record": for this process alone, which plays `rank` of `world_size` (up to 4096) and counts
---   the messages that it would send (group.WORLD:traffic()).
--- * "gloo", the name in PyTorch's programs: means "shm", or "mpi" if mpirun has started ranks on
---   several machines.
---
--- A call that gets no answer within `timeout` seconds (1800 by default; 60 under `tlua run`)
--- raises an error.
---
---     -- `tlua run -n 4 train.lua` sets the ranks; here is a group of one.
---     local store = torch.distributed.HashStore()
---     local options = {store = store, rank = 0, world_size = 1}
---     torch.distributed.init_process_group("shm", options)
---     local x = torch.ones(2)
---     torch.distributed.all_reduce(x) -- the sum over all ranks
---     print(torch.distributed.get_world_size(), x)
---     --> 1	tensor([1., 1.])
---     torch.distributed.destroy_process_group()
---@param options? table  backend, init_method, rank, world_size, timeout, store, device_id
function M.init_process_group(...)
   local a = take_init(...)
   if M.group.WORLD then torch.raise "init_process_group: there is a process group already" end
   a.backend = a.backend or default_backend()
   check_backend("init_process_group", a.backend)
   a.called, a.backend = a.backend, engine_of(a.backend)
   count(a, "rank")
   count(a, "world_size")
   if a.backend == "nccl" and not torch.cuda.is_available() then
      torch.raise('init_process_group: backend "nccl" needs a GPU for each rank, and this ' ..
         'process finds none (tlua doctor tells why); "gloo" is the one for the CPU')
   end
   a.timeout = a.timeout or default_timeout()
   if a.timeout <= 0 then args.refuse("init_process_group", "timeout", "seconds", a.timeout) end
   if a.device_id then torch.cuda.set_device(a.device_id) end
   local group = join_world(a)
   note_engine(group)
   group.owns_store = not a.store
   M.group.WORLD = group
   all = {group}
end

--- Returns whether init_process_group has been called.
---@return boolean
function M.is_initialized()
   return M.group.WORLD ~= nil
end

--- Returns whether this build supports process groups.
---@return boolean
function M.is_available()
   return true
end

checked.queries(M, "distributed.", "is_initialized is_available")

local take_new = args.signature [[new_group(ranks: integers?, timeout: number?, backend: string?)]]

--- Makes a group of some of the world's ranks, all by default. Every rank of the world must call
--- the function, in the same order as its other calls of new_group; ranks outside of the group get
--- GroupMember.NON_GROUP_MEMBER.
---@param ranks? integer[]
---@param options? {timeout: number, backend: string}
---@return distributed.ProcessGroup
function M.new_group(...)
   local first = ...
   -- an empty list of ranks: take_new would read the empty table as options
   if type(first) == "table" and next(first) == nil then
      args.refuse("new_group", "ranks", "at least one rank", first)
   end
   local a = take_new(...)
   local world = M.resolve("new_group")
   if a.backend then check_backend("new_group", a.backend) end
   local members, seen = a.ranks or world.ranks, {}
   if type(members) ~= "table" then members = {members} end
   if #members == 0 then args.refuse("new_group", "ranks", "at least one rank", members) end
   members = table.move(members, 1, #members, 1, {})
   for _, rank in ipairs(members) do
      M.position("new_group", "ranks", world, rank)
      if seen[rank] then torch.raise(("new_group: ranks: %d occurs twice"):format(rank)) end
      seen[rank] = true
   end
   table.sort(members)
   children = children + 1
   if not seen[M.get_rank()] then return outside end
   local group = ProcessGroup(world.store, ("%s.%d"):format(world.name, children), members,
      M.get_rank(), a.timeout or world.timeout,
      engine_of(a.backend or world.backend), a.backend or world.called)
   table.insert(all, group)
   return group
end

local take_subgroups = args.signature [[new_subgroups(group_size: integer, group: object?,
   timeout: number?, backend: string?)]]

--- Makes groups of `group_size` successive ranks each. Returns this rank's group, and a list of all
--- groups.
---@param group_size integer  a divisor of the number of ranks
---@param options? {group: distributed.ProcessGroup, timeout: number, backend: string}  `group` is
--- divided; it must be the default group. timeout and backend are those of new_group
---@return distributed.ProcessGroup own
---@return distributed.ProcessGroup[] groups
function M.new_subgroups(...)
   local a = take_subgroups(...)
   local world, size = M.resolve("new_subgroups"), a.group_size
   if a.group and a.group ~= world then
      args.refuse("new_subgroups", "group", "the default group, or none", a.group)
   end
   if size < 1 or #world.ranks % size ~= 0 then
      args.refuse("new_subgroups", "group_size", ("a divisor of %d"):format(#world.ranks), size)
   end
   local own, groups = outside, {}
   for first = 0, #world.ranks - 1, size do
      local members = {}
      for i = 1, size do members[i] = first + i - 1 end
      local group = M.new_group(members, {timeout = a.timeout, backend = a.backend})
      groups[#groups + 1] = group
      if group ~= outside then own = group end
   end
   return own, groups
end

-- Checks that no rank is in two of the lists. Returns a table from each rank to the number of its
-- list. check(what, rank) must raise an error if a rank does not exist.
local function check_apart(title, name, lists, check)
   local where = {}
   if type(lists) ~= "table" or #lists == 0 then
      args.refuse(title, name, "lists of ranks", lists)
   end
   for i, members in ipairs(lists) do
      local what = ("%s[%d]"):format(name, i)
      if type(members) ~= "table" or #members == 0 then
         args.refuse(title, what, "a list of ranks", members)
      end
      for _, rank in ipairs(members) do
         check(what, rank)
         if where[rank] then
            torch.raise(("%s: %s: rank %d is in the group %d as well"):format(title, what, rank,
               where[rank]))
         end
         where[rank] = i
      end
   end
   return where
end

local take_enumeration = args.signature [[new_subgroups_by_enumeration(
   ranks_per_subgroup_list: any, timeout: number?, backend: string?)]]

--- Makes groups of the given ranks. No rank may be in two groups. Returns this rank's group, and a
--- list of all groups.
---@param ranks_per_subgroup_list integer[][]
---@param options? {timeout: number, backend: string}  as of new_group
---@return distributed.ProcessGroup own
---@return distributed.ProcessGroup[] groups
function M.new_subgroups_by_enumeration(...)
   local title <const> = "new_subgroups_by_enumeration"
   local a, world = take_enumeration(...), M.resolve(title)
   check_apart(title, "ranks_per_subgroup_list", a.ranks_per_subgroup_list, function(what, rank)
      M.position(title, what, world, rank)
   end)
   local own, groups = outside, {}
   for i, members in ipairs(a.ranks_per_subgroup_list) do
      groups[i] = M.new_group(members, {timeout = a.timeout, backend = a.backend})
      if groups[i] ~= outside then own = groups[i] end
   end
   return own, groups
end

local take_split = args.signature [[split_group(parent_pg: object?, split_ranks: any,
   timeout: number?, backend: string?)]]

--- Splits a group, the world by default. Returns this rank's new group, or
--- GroupMember.NON_GROUP_MEMBER if no list has this rank. All ranks of the group must make the call
--- with the same lists. A list holds ranks of the group, from 0, in the order of their ranks in the
--- new group.
---@param parent_pg? distributed.ProcessGroup
---@param split_ranks integer[][]
---@param options? {timeout: number, backend: string}
---@return distributed.ProcessGroup
function M.split_group(...)
   local a = take_split(...)
   local title <const> = "split_group"
   local parent = M.resolve(title, a.parent_pg)
   if not parent then torch.raise(title .. ": parent_pg: this rank is not of the group") end
   if a.backend then check_backend(title, a.backend) end
   local own = check_apart(title, "split_ranks", a.split_ranks, function(what, rank)
      if math.type(rank) ~= "integer" or not parent.ranks[rank + 1] then
         args.refuse(title, what, ("ranks of the group, 0 to %d"):format(#parent.ranks - 1), rank)
      end
   end)[parent.group_rank]
   parent.splits = (parent.splits or 0) + 1
   if not own then return outside end
   local members = {}
   for i, rank in ipairs(a.split_ranks[own]) do
      members[i] = parent.ranks[rank + 1]
   end
   local group = ProcessGroup(M.group.WORLD.store, ("%s.split%d.%d"):format(parent.name,
      parent.splits, own), members, M.get_rank(), a.timeout or parent.timeout,
      engine_of(a.backend or parent.backend), a.backend or parent.called)
   table.insert(all, group)
   return group
end

--- Leaves a group, or all groups if none is given. Pending calls fail.
---@param group? distributed.ProcessGroup
function M.destroy_process_group(group)
   if group == outside then return end
   group = M.resolve("destroy_process_group", group)
   if group ~= M.group.WORLD then
      leave(group)
      for i, other in ipairs(all) do
         if other == group then table.remove(all, i) break end
      end
      return
   end
   for i = #all, 1, -1 do leave(all[i]) end
   if group.owns_store then group.store:close() end
   all, M.group.WORLD = {}, nil
end

-- Asking ---------------------------------------------------------------------------------------

--- Returns this process's rank in a group, from 0; -1 if the process is not in the group.
---@param group? distributed.ProcessGroup
---@return integer
function M.get_rank(group)
   group = M.resolve("get_rank", group)
   return group and group.group_rank or -1
end

local local_ranks = {
   "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID",
}

--- Returns this process's rank among the processes on its machine, from 0, as set by `tlua run`,
--- mpirun or srun.
---@param fallback_rank? integer  returned if no launcher has set the rank; nil raises an error
---@return integer
function M.get_node_local_rank(fallback_rank)
   for _, name in ipairs(local_ranks) do
      local rank = math.tointeger(tonumber(os.getenv(name)))
      if rank then return rank end
   end
   if fallback_rank == nil then
      torch.raise("get_node_local_rank: there is no LOCAL_RANK in the environment, as `tlua run` "
         .. "sets it; expected fallback_rank")
   end
   if math.type(fallback_rank) ~= "integer" then
      args.refuse("get_node_local_rank", "fallback_rank", "an integer", fallback_rank)
   end
   return fallback_rank
end
checked.functions(M, "distributed.", "get_node_local_rank(fallback_rank: any?)")

--- Returns the number of ranks of a group; -1 if this process is not in the group.
---@param group? distributed.ProcessGroup
---@return integer
function M.get_world_size(group)
   group = M.resolve("get_world_size", group)
   return group and #group.ranks or -1
end

-- Resolves a group like `resolve`, but raises an error if this rank is outside of the group.
local function resolve_own(name, group)
   group = M.resolve(name, group)
   if not group then torch.raise(name .. ": this rank is not of the group") end
   return group
end

--- Returns "shm", "mpi", "nccl" or "record", or "gloo" if init_process_group got that name.
---@param group? distributed.ProcessGroup
---@return string
function M.get_backend(group)
   return resolve_own("get_backend", group).called
end

--- Returns the number of groups that this rank belongs to, including the world.
---@return integer
function M.get_pg_count()
   return M.group.WORLD and #all or 0
end

--- Returns "detail" if TLUA_DISTRIBUTED_DEBUG is "detail", which makes ranks compare every call;
--- otherwise "off".
---@return string
function M.get_debug_level()
   return os.getenv "TLUA_DISTRIBUTED_DEBUG" == "detail" and "detail" or "off"
end

--- Returns the world ranks of a group's members.
---@param group? distributed.ProcessGroup
---@return integer[]
function M.get_process_group_ranks(group)
   group = M.resolve("get_process_group_ranks", group)
   return group and table.move(group.ranks, 1, #group.ranks, 1, {}) or {}
end

--- Converts a world rank into the rank within a group.
---@param group? distributed.ProcessGroup
---@param global_rank integer
---@return integer
function M.get_group_rank(group, global_rank)
   return M.position("get_group_rank", "global_rank", resolve_own("get_group_rank", group),
      global_rank)
end

--- Converts a rank within a group into the world rank.
---@param group? distributed.ProcessGroup
---@param group_rank integer
---@return integer
function M.get_global_rank(group, group_rank)
   group = resolve_own("get_global_rank", group)
   local rank = group.ranks[(math.tointeger(group_rank) or -1) + 1]
   if not rank then
      args.refuse("get_global_rank", "group_rank", ("0 to %d"):format(#group.ranks - 1),
         group_rank)
   end
   return rank
end

--- Sets how long later calls of a group wait for other ranks.
---@param timeout number  seconds
---@param group? distributed.ProcessGroup
function M.set_timeout(timeout, group)
   if type(timeout) ~= "number" or timeout <= 0 or timeout ~= timeout then
      args.refuse("set_timeout", "timeout", "seconds", timeout)
   end
   group = resolve_own("set_timeout", group)
   group.raw:set_timeout(timeout)
   group.timeout = timeout
end

--- Returns whether init_process_group accepts a back end here. "mpi" needs its library and a start
--- by mpirun or srun; "nccl" needs NCCL and a GPU.
---@param backend string
---@return boolean
function M.is_backend_available(backend)
   if type(backend) ~= "string" then
      args.refuse("is_backend_available", "backend", "a string", backend)
   end
   return torch.distributed._available(engine_of(backend))
end

--- Returns whether the plugin for MPI and its library can be loaded.
---@return boolean
function M.is_mpi_available()
   return M.is_backend_available "mpi"
end

--- Returns whether NCCL can be loaded.
---@return boolean
function M.is_nccl_available()
   return M.is_backend_available "nccl"
end

--- Returns true: "gloo" is another name for "shm", or for "mpi" on several machines.
---@return boolean
function M.is_gloo_available()
   return M.is_backend_available "gloo"
end

--- Returns whether `tlua run` has started this process.
---@return boolean
function M.is_torchelastic_launched()
   return os.getenv "TLUA_STORE" ~= nil
end

checked.queries(M, "distributed.", [[get_pg_count get_debug_level is_mpi_available
   is_nccl_available is_gloo_available is_torchelastic_launched]])

-- Meeting --------------------------------------------------------------------------------------

local take_barrier = args.signature [[barrier(group: object?, async_op: boolean = false,
   device_ids: integers?)]]

--- Waits until all ranks have called barrier. device_ids is accepted and ignored: a group's calls
--- are made on the device that its rank had when it joined.
---@param group? distributed.ProcessGroup
---@param options? {group: distributed.ProcessGroup, async_op: boolean, device_ids: integer[]}
---@return distributed.Work?
function M.barrier(...)
   local a = take_barrier(...)
   local group = M.resolve("barrier", a.group)
   if not group then return nil end
   local work = group:run("barrier", {async_op = a.async_op})
   return a.async_op and work or nil
end

local take_monitored = args.signature "monitored_barrier(group: object?, timeout: number?)"

--- Waits for all ranks as barrier does, but with the option `timeout` in place of the group's
--- timeout. If ranks are missing after that time, the error names all of them.
---@param group? distributed.ProcessGroup
---@param options? {group: distributed.ProcessGroup, timeout: number}
function M.monitored_barrier(...)
   local a = take_monitored(...)
   local group = M.resolve("monitored_barrier", a.group)
   if group then group:run("barrier", {timeout = a.timeout}) end
end

return M
