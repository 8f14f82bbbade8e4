-- login.lua - checks logins for Dovecot, in Dovecot's own Lua 5.4. A network has learned from past
-- logins which addresses and which service each user logs in from. If the network finds a login
-- unusual, the login is refused. Otherwise Dovecot compares the password.

local torch = require "tlua"
local nn = torch.nn

-- Passwords in Dovecot's notation; a real server reads them from a file or a database.
local passwords <const> = {alice = "{PLAIN}wonderland", bob = "{PLAIN}builder"}
local users <const> = {"alice", "bob"}
local services <const> = {"imap", "pop3", "smtp"}

local function one_hot(names, name)
   local x = {}
   for i, known in ipairs(names) do x[i] = known == name and 1 or 0 end
   return x
end

-- Returns the features of a login: the user, the service, and the bits of the first two bytes of
-- the address.
local function features(user, service, address)
   local x = one_hot(users, user)
   table.move(one_hot(services, service), 1, #services, #x + 1, x)
   local high, low = tostring(address):match "^(%d+)%.(%d+)%."
   local bits = (tonumber(high) or 0) << 8 | (tonumber(low) or 0)
   for b = 15, 0, -1 do x[#x + 1] = bits >> b & 1 end
   return x
end

-- Returns past logins of two kinds: those of the users themselves, and those of attackers, who
-- tried all users from random addresses.
local function history()
   local inputs, odd = {}, {}
   local function add(label, ...)
      inputs[#inputs + 1] = features(...)
      odd[#odd + 1] = {label}
   end
   math.randomseed(1)
   for _ = 1, 200 do
      local host = (".%d.%d"):format(math.random(0, 255), math.random(0, 255))
      add(0, "alice", "imap", "10.1" .. host)
      add(0, "bob", services[math.random(3)], "192.168" .. host)
      for _, user in ipairs(users) do
         local network = ("%d.%d"):format(math.random(1, 223), math.random(0, 255))
         add(1, user, services[math.random(3)], network .. host)
      end
   end
   return torch.tensor(inputs):float(), torch.tensor(odd):float()
end

local model

-- Dovecot calls this function once in each of its processes.
function script_init()
   torch.manual_seed(1)
   torch.set_num_threads(1)
   model = nn.Sequential(nn.Linear(#users + #services + 16, 32), nn.ReLU(), nn.Linear(32, 1))
   local optimizer = torch.optim.Adam(model:parameters(), {lr = 0.01})
   local x, y = history()
   for _ = 1, 200 do
      optimizer:zero_grad()
      nn.functional.binary_cross_entropy_with_logits(model(x), y):backward()
      optimizer:step()
   end
   return 0
end

function script_deinit() end

function auth_passdb_lookup(request)
   local password = passwords[request.user]
   if not password then return dovecot.auth.PASSDB_RESULT_USER_UNKNOWN, "no such user" end
   local odd = torch.no_grad(function()
      local x = torch.tensor {features(request.user, request.service, request.remote_ip)}
      return model(x:float()):sigmoid():item()
   end)
   request:log_info(("login of %s is odd by %.3f"):format(request.user, odd))
   if odd > 0.5 then return dovecot.auth.PASSDB_RESULT_USER_DISABLED, "an odd login" end
   return dovecot.auth.PASSDB_RESULT_OK, "password=" .. password
end
