-- head.lua - defines functions that the programs of all ranks may call. For example, `check` compares two values, and
-- raises an error that names the rank and both values if they differ.

torch.set_num_threads(1)
dist = torch.distributed

local function list(x) return torch.is_tensor(x) and x:tolist() or x end
local function show(x)
   if type(x) ~= "table" then return tostring(x) end
   local parts = {}
   for i, y in ipairs(x) do parts[i] = show(y) end
   return "{" .. table.concat(parts, ", ") .. "}"
end

function check(expected, actual, what)
   expected, actual = show(list(expected)), show(list(actual))
   if expected ~= actual then error(("%s: expected %s, got %s"):format(what or "check", expected, actual), 2) end
end

BACKEND = os.getenv "SPEC_DIST_BACKEND" or "shm"

function refused(text, fn, ...)
   local ok, message = pcall(fn, ...)
   if ok then error("no error: expected " .. text, 2) end
   if not message:find(text, 1, true) then error(("expected %s, got %s"):format(text, message), 2) end
end

LIMIT = 1e-5 -- tolerance for sums whose terms are added in another order

function near(a, b, limit, what)
   local off = (a - b):abs():max():item()
   local fits = off <= (limit or LIMIT) -- this comparison is false if the difference is NaN
   if not fits then error((what or "value") .. " is off by " .. off, 2) end
end

-- Prints "told", and waits for the other ranks before the process ends. If it did not wait, mpirun would end all ranks
-- when the first one ends, and the error "has ended" would hide the expected error.
function told()
   print "told"
   io.stdout:flush()
   local store, names = dist.group.WORLD.store, {}
   store:set("told" .. dist.get_rank(), "")
   for i = 1, dist.get_world_size() do names[i] = "told" .. i - 1 end
   -- this wait raises an error if the rank that holds the store has already ended
   pcall(store.wait, store, names, 300)
end

function near_model(model, alone, limit)
   local full, theirs = dist.fsdp.full_tensor, alone:parameters()
   for i, p in ipairs(model:parameters()) do
      near(full(p), theirs[i], limit, "parameter " .. i)
      if theirs[i].grad then near(full(p, p.grad), theirs[i].grad, limit, "gradient " .. i) end
   end
end
