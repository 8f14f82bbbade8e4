-- store.lua - key-value stores shared by processes, and the means by which processes find one
-- another.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local M = {}

--- Methods of all stores: set(key, value), get(key), add(key, n), append(key, value),
--- compare_set(key, expected_value, desired_value), wait(keys, seconds?), check(keys),
--- delete_key(key), multi_set(keys, values), multi_get(keys), num_keys(), set_timeout(seconds).
--- Values are strings. get and wait wait for keys that are not set yet, and raise an error after
--- the store's timeout. append adds bytes to the end of a key's value. compare_set sets a key if
--- the key has the expected value, or if the key is missing and the expected value is "". It
--- returns the value of the key afterwards; if the key is still missing, it returns the expected
--- value.
---
---     local store = torch.distributed.HashStore()
---     store:set("name", "tlua")
---     print(store:get "name", store:add("count", 2), store:add("count", 3))
---     --> tlua	2	5
---@class distributed.Store
local Store = class.class("distributed.Store")
M.Store = Store

--- Operations on one key; a PrefixStore first puts its prefix before the key. `set(key, value)`
--- sets a value; `get(key)` waits until the key is set, and returns its value; `add(key, n)` adds
--- an integer to a count and returns the new count; `append(key, value)` adds bytes;
--- `compare_set(key, expected, desired)` sets the key if it has the expected value, and returns its
--- value; `check(keys)` tells whether all the keys are set; `delete_key(key)` tells whether the key
--- existed.
---@names distributed.Store:set distributed.Store:get distributed.Store:add
---@names distributed.Store:append distributed.Store:compare_set distributed.Store:check
---@names distributed.Store:delete_key
---@param key string|string[]
---@param ... string|integer  the values
---@return any result
for _, name in ipairs {"set", "get", "add", "append", "compare_set", "check", "delete_key"} do
   Store[name] = function(self, key, ...) return self.raw[name](self.raw, self:_key(key), ...) end
end

function Store:_key(key)
   if not self.prefix or type(key) == "nil" then return key end
   if type(key) ~= "table" then return self.prefix .. "/" .. tostring(key) end
   local list = {}
   for i, name in ipairs(key) do list[i] = self.prefix .. "/" .. tostring(name) end
   return list
end

--- Waits until keys are set.
---@param keys string|string[]
---@param timeout? number  seconds
function Store:wait(keys, timeout)
   return self.raw:wait(self:_key(keys), timeout)
end

--- Sets several keys one after the other.
---@param keys string[]
---@param values string[]
function Store:multi_set(keys, values)
   if type(keys) ~= "table" then args.refuse("multi_set", "keys", "a list of strings", keys) end
   if type(values) ~= "table" or #values ~= #keys then
      args.refuse("multi_set", "values", ("a list of %d strings"):format(#keys), values)
   end
   for i, key in ipairs(keys) do self:set(key, values[i]) end
end

--- Returns the values of several keys. If a key is not set, waits until it is, as get does.
---@param keys string[]
---@return string[]
function Store:multi_get(keys)
   if type(keys) ~= "table" then args.refuse("multi_get", "keys", "a list of strings", keys) end
   local values = {}
   for i, key in ipairs(keys) do values[i] = self:get(key) end
   return values
end

--- Sets the time that get and wait may take from now on.
---@param timeout number  seconds
function Store:set_timeout(timeout)
   if type(timeout) ~= "number" then
      args.refuse("set_timeout", "timeout", "seconds", timeout)
   end
   self.raw:set_timeout(timeout)
   self.timeout = timeout
end

--- Returns the number of keys in the store, whatever their prefixes are.
---@return integer
function Store:num_keys()
   return self.raw:num_keys()
end

-- Returns the job's secret in the form that the C functions expect. The empty string means that
-- every client is trusted, and nil that there is no secret.
local function secret_of(name, given)
   if given == false then return "" end
   if given ~= nil and type(given) ~= "string" then
      args.refuse(name, "secret", "a string, or false to trust all processes that can connect",
         given)
   end
   local secret = given or os.getenv "TLUA_SECRET"
   return secret == "none" and "" or secret
end

local take_tcp = args.signature [[distributed.TCPStore(host_name: string, port: count,
   world_size: count?, is_master: boolean = false, timeout: number = 300, secret: any?)]]

--- A store at an address, which the process with is_master serves. Port 0 chooses a free port,
--- whose number is in the field `port`. All processes prove to one another that they know `secret`,
--- which is never sent. By default it is the environment's TLUA_SECRET, which `tlua run` sets.
--- Without a secret, the address must be this machine's own (127.0.0.1), and other users are
--- refused if the system can identify them. `secret = false`, or TLUA_SECRET=none, trusts every
--- client.
---
---     local options = {is_master = true, secret = ("x"):rep(16)}
---     local store = torch.distributed.TCPStore("127.0.0.1", 0, options)
---     store:set("name", "tlua")
---     print(store:get "name", store.port > 0)
---     --> tlua	true
---@class distributed.TCPStore: distributed.Store
---@overload fun(host_name: string, port: integer, options?: table): distributed.TCPStore
M.TCPStore = class.class("distributed.TCPStore", Store)

function M.TCPStore:__init(...)
   local a = take_tcp(...)
   self.raw = torch.distributed._store(a.host_name, a.port, a.timeout, a.is_master,
      secret_of("TCPStore", a.secret))
   self.host, self.port, self.timeout = a.host_name, self.raw:port(), a.timeout
end

--- Ends the connection, and the store if this process serves it.
function Store:close()
   self.raw:close()
end

local take_hash = args.signature "distributed.HashStore(timeout: number = 300)"

--- A store of this process alone, for a group of one rank and for tests.
---
---     local store = torch.distributed.HashStore()
---     store:set("name", "tlua")
---     print(store:check {"name"}, store:check {"other"})
---     --> true	false
---@class distributed.HashStore: distributed.Store
---@overload fun(options?: table): distributed.HashStore
M.HashStore = class.class("distributed.HashStore", Store)

function M.HashStore:__init(...)
   self.timeout = take_hash(...).timeout
   self.raw = torch.distributed._store("127.0.0.1", 0, self.timeout, true,
      torch.distributed._secret())
end

--- Ends the store.
function M.HashStore:close()
   self.raw:close()
end

-- Connects to the server that a file names. A server that has ended may leave its file, so the
-- function retries until a server answers. A file of another user is refused at once.
local function connect(path, timeout)
   local deadline = torch.io.clock() + timeout
   local why = "no process has written it"
   repeat
      local text, message, kind = torch.distributed._private_read(path)
      if kind == "foreign" then torch.raise("FileStore: " .. message) end
      if kind == "refused" then why = message end
      local port, secret = (text or ""):match "^(%d+) (%S+)\n$"
      if port then
         local ok, raw = pcall(torch.distributed._store, "127.0.0.1", math.tointeger(port), 0.2,
            false, secret)
         if ok then return raw end
         why = tostring(raw):gsub("^[^\n]-:%d+: ", "")
      end
      torch.distributed._sleep(0.01)
   until torch.io.clock() >= deadline
   torch.raise(("FileStore: %s: no store within %g s: %s"):format(path, timeout, why))
end

local take_file = args.signature [[distributed.FileStore(file_name: string, world_size: count?,
   is_master: boolean = false, timeout: number = 300)]]

--- A store for the processes of one user on one machine. A file has the store's port and secret.
--- The process with is_master writes the file, and removes the file when closing the store. Only
--- the user can read the file; another user's file is refused.
---
---     local options = {is_master = true}
---     local store = torch.distributed.FileStore("store.txt", options)
---     store:set("name", "tlua")
---     local other = torch.distributed.FileStore "store.txt"
---     print(other:get "name")
---     --> tlua
---@class distributed.FileStore: distributed.Store
---@overload fun(file_name: string, options?: table): distributed.FileStore
M.FileStore = class.class("distributed.FileStore", Store)

function M.FileStore:__init(...)
   local a = take_file(...)
   self.timeout = a.timeout
   if not a.is_master then
      self.raw = connect(a.file_name, a.timeout)
      return
   end
   local secret = torch.distributed._secret()
   self.raw = torch.distributed._store("127.0.0.1", 0, a.timeout, true, secret)
   local done, why = torch.distributed._private_write(a.file_name, ("%d %s\n"):format(
      self.raw:port(), secret))
   if not done then
      self.raw:close()
      torch.raise("FileStore: " .. why)
   end
   self.file_name = a.file_name
end

function M.FileStore:close()
   if self.file_name then os.remove(self.file_name) end
   self.file_name = nil
   self.raw:close()
end

--- A view of another store that adds a prefix to all keys.
---
---     local store = torch.distributed.HashStore()
---     local view = torch.distributed.PrefixStore("job1", store)
---     view:set("name", "tlua")
---     print(view:check {"name"}, store:check {"name"})
---     --> true	false
---@class distributed.PrefixStore: distributed.Store
---@overload fun(prefix: string, store: distributed.Store): distributed.PrefixStore
M.PrefixStore = class.class("distributed.PrefixStore", Store)

function M.PrefixStore:__init(prefix, store)
   if type(prefix) ~= "string" then args.refuse("PrefixStore", "prefix", "a string", prefix) end
   if not class.isinstance(store, Store) then
      args.refuse("PrefixStore", "store", "a store", store)
   end
   self.raw, self.prefix = store.raw, store:_key(prefix)
   self.timeout = store.timeout
end

-- Rendezvous -----------------------------------------------------------------------------------

local function number_in(name)
   local text = os.getenv(name)
   return text and math.tointeger(tonumber(text))
end

-- The environment variables in which mpirun and srun pass the process's rank, the number of ranks
-- and the job's name.
local launchers = {
   {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE"},
   {"PMI_RANK", "PMI_SIZE", "SLURM_JOB_ID"},
   {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID"},
}

-- Returns the process number of this machine's MPICH proxy. MPICH's mpirun sets no job name, but
-- all its ranks on a machine descend from one proxy, whose process number identifies the job.
local function hydra()
   local pid = "self"
   while pid ~= "0" do
      local file <close> = io.open(("/proc/%s/stat"):format(pid))
      local name, parent = (file and file:read("a") or ""):match "^%d+ %((.*)%) %S+ (%d+)"
      if not name then return nil end
      if name == "hydra_pmi_proxy" then return "hydra." .. pid end
      pid = parent
   end
end

-- Returns the rank, the number of ranks and the name of the job from environment variables. RANK
-- and WORLD_SIZE come first, without a name; otherwise the variables of mpirun or srun are used.
local function from_environment()
   local rank, size = number_in "RANK", number_in "WORLD_SIZE"
   if rank or size then return rank, size end
   for _, names in ipairs(launchers) do
      rank, size = number_in(names[1]), number_in(names[2])
      if rank and size then return rank, size, hydra() or os.getenv(names[3]) end
   end
end

-- Returns the first host of a list in Slurm's form: "a,b", "node[03-05,7],x", "r[1-2]n[1-4]".
local function first_host(list)
   local host, depth = "", 0
   for c in list:gmatch "." do
      if c == "," and depth == 0 then break end
      depth = depth + (c == "[" and 1 or c == "]" and -1 or 0)
      host = host .. c
   end
   return (host:gsub("%[(%d+)[^%]]*%]", "%1"))
end

-- Returns the address at which ranks on several hosts meet if srun has started them. It consists of
-- the first host and a port that is computed from the numbers of the job and of the job step.
local function by_slurm()
   local list = os.getenv "SLURM_STEP_NODELIST" or os.getenv "SLURM_JOB_NODELIST"
   local hosts = number_in "SLURM_STEP_NUM_NODES" or number_in "SLURM_NNODES"
   if not list or not hosts or hosts < 2 or not os.getenv "SLURM_PROCID" then return nil end
   local job, step = number_in "SLURM_JOB_ID" or 0, number_in "SLURM_STEP_ID" or 0
   return first_host(list), 15000 + (job * 31 + step) % 15000
end

local function refuse_address(url, expected)
   torch.raise(("init_process_group: init_method: expected %s, got %q"):format(expected, url))
end

local function numbered(a, from_url)
   local rank, size = a.rank or from_url.rank, a.world_size or from_url.world_size
   return math.tointeger(tonumber(rank)), math.tointeger(tonumber(size))
end

-- Parses the query of a URL, such as "rank=0&world_size=2" after the "?".
local function parameters(query)
   local found = {}
   for key, value in (query or ""):gmatch "([%w_]+)=([^&]*)" do found[key] = value end
   return found
end

local function by_environment(a)
   local rank, size, job = from_environment()
   rank, size = a.rank or rank, a.world_size or size
   if not rank or not size then
      torch.raise("init_process_group: rank and world_size are not given, and there is no RANK " ..
         "and WORLD_SIZE in the environment, as `tlua run` sets them")
   end
   local host, port = os.getenv "MASTER_ADDR", number_in "MASTER_PORT"
   if job and not (host and port) then
      local first, number = by_slurm()
      host, port = host or first, port or number
   end
   if not port and job then
      local folder = os.getenv "TMPDIR" or "/tmp"
      local file = ("%s/tlua-%d-%s"):format(folder, torch.distributed._user(),
         (job:gsub("[^%w_.-]", "_")))
      return rank, size, M.FileStore(file, {is_master = rank == 0, timeout = a.timeout})
   end
   if not port then
      torch.raise("init_process_group: there is no MASTER_PORT in the environment, as `tlua run` "
         .. "sets it; or give init_method = \"file:///...\" or \"tcp://host:port\"")
   end
   local serves = rank == 0 and os.getenv "TLUA_STORE" ~= "launcher"
   return rank, size, M.TCPStore(host or "127.0.0.1", port, {
      is_master = serves, timeout = a.timeout,
   })
end

-- The environment variables in which mpirun passes the number of all ranks, and the number of ranks
-- on this machine.
local extents = {
   {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}, {"PMI_SIZE", "MPI_LOCALNRANKS"},
}

--- Returns 1 if all ranks are on one machine, 2 if they are on several machines, and nil if neither
--- mpirun nor srun has set the number.
---@return integer?
function M.hosts()
   for _, names in ipairs(extents) do
      local size, here = tonumber(os.getenv(names[1])), tonumber(os.getenv(names[2]))
      if size and here then return here < size and 2 or 1 end
   end
   local hosts = tonumber(os.getenv "SLURM_STEP_NUM_NODES" or os.getenv "SLURM_NNODES")
   return os.getenv "SLURM_PROCID" and hosts and math.min(hosts, 2) or nil
end

-- Finds the other ranks by MPI. Rank 0 serves a store and sends the store's address by MPI. If the
-- environment has no secret, it also sends a new secret, which is as safe as MPI's messages.
local function by_mpi(a)
   local url = a.init_method or "env://"
   if url ~= "env://" then
      torch.raise(("init_process_group: init_method: ranks of \"mpi\" find one another by MPI; " ..
         "expected none, got %q"):format(url))
   end
   local rank, size, host = torch.distributed._mpi()
   for name, value in pairs {rank = rank, world_size = size} do
      if a[name] and a[name] ~= value then
         torch.raise(("init_process_group: %s: MPI says %d, got %d"):format(name, value, a[name]))
      end
   end
   if a.store then return rank, size, a.store end
   local secret = os.getenv "TLUA_SECRET"
   local made = not secret and rank == 0 and torch.distributed._secret()
   local store = rank == 0 and M.TCPStore(M.hosts() == 1 and "127.0.0.1" or "", 0,
      {is_master = true, timeout = a.timeout, secret = made or secret})
   local text = torch.distributed._mpi_share(store and ("%s %d %s"):format(host, store.port,
      made or "") or "")
   if store then return rank, size, store end
   local where, port, theirs = text:match "^(%S+) (%d+) (%S*)$"
   return rank, size, M.TCPStore(where == host and "127.0.0.1" or where, math.tointeger(port),
      {timeout = a.timeout, secret = secret or theirs})
end

--- Returns the rank, the number of ranks and the store for init_process_group's options.
---@return integer rank
---@return integer world_size
---@return distributed.Store store
function M.rendezvous(a)
   if a.backend == "mpi" then return by_mpi(a) end
   if a.backend == "record" then
      if not a.rank or not a.world_size then
         torch.raise "init_process_group: backend \"record\": rank and world_size are missing"
      end
      return a.rank, a.world_size, a.store or M.HashStore()
   end
   local url = a.init_method or "env://"
   if a.store then
      if not a.rank or not a.world_size then
         torch.raise "init_process_group: a store needs rank and world_size beside it"
      end
      return a.rank, a.world_size, a.store
   end
   local scheme, rest = url:match "^(%a+)://(.*)$"
   if scheme == "env" then return by_environment(a) end
   local address, query = (rest or ""):match "^([^?]*)%??(.*)$"
   local rank, size = numbered(a, parameters(query))
   if scheme ~= "file" and scheme ~= "tcp" then
      refuse_address(url, "env://, file:///PATH or tcp://HOST:PORT")
   end
   if not rank or not size then
      torch.raise("init_process_group: rank and world_size are missing beside " .. url)
   end
   local options = {is_master = rank == 0, timeout = a.timeout}
   if scheme == "file" then
      if address:sub(1, 1) ~= "/" then refuse_address(url, "file:///PATH") end
      return rank, size, M.FileStore(address, options)
   end
   local host, port = address:match "^%[?(.-)%]?:(%d+)$"
   if not host then refuse_address(url, "tcp://HOST:PORT") end
   return rank, size, M.TCPStore(host, math.tointeger(port), options)
end

return M
