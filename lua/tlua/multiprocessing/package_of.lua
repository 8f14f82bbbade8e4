-- package_of.lua - a function and its arguments in a folder, for processes that are started with
-- them: rank.lua, which calls `run`, and what _pack makes of the values: their bytes and tensors.

local torch = require "tlua"

local M = {}

-- A number of a format without a length of its own.
local function read_number(file, format)
   return (string.unpack(format, file:read(string.packsize(format))))
end

local function write_tensor(file, t)
   local shape = t.shape
   file:write(string.pack("<s1BB", t.dtype, t.is_parameter and 1 or 0, #shape))
   for _, n in ipairs(shape) do file:write(string.pack("<i8", n)) end
   assert(torch.io.write(file, t))
end

local function read_tensor(file)
   local dtype = file:read(read_number(file, "B"))
   local is_parameter, shape = read_number(file, "B") == 1, {}
   for i = 1, read_number(file, "B") do shape[i] = read_number(file, "<i8") end
   local t = assert(torch.io.read(file, shape, dtype))
   if is_parameter then t.is_parameter = true end
   return t
end

--- Writes a folder's files.
---@param folder string
---@param fn function
---@param arguments table  a list; `n` tells its length where nil is in it
function M.write(folder, fn, arguments)
   local n = arguments.n or #arguments
   local bytes, tensors = torch._pack("spawn", fn, n, table.unpack(arguments, 1, n))
   local file <close> = assert(io.open(folder .. "/parcel", "wb"))
   file:write(string.pack("<s8I8", bytes, #tensors))
   for _, t in ipairs(tensors) do write_tensor(file, t) end
   local script <close> = assert(io.open(folder .. "/rank.lua", "w"))
   script:write(("package.path, package.cpath = %q, %q\n"):format(package.path, package.cpath),
      ("torch.multiprocessing._run(%q)\n"):format(folder))
   assert(script:flush())
   assert(file:flush())
end

local function read(folder)
   local file <close> = assert(io.open(folder .. "/parcel", "rb"))
   local bytes, tensors = file:read(read_number(file, "<I8")), {}
   for i = 1, read_number(file, "<I8") do tensors[i] = read_tensor(file) end
   return torch._unpack(bytes, tensors)
end

local function call(fn, n, ...)
   return fn(math.tointeger(tonumber(os.getenv "RANK")), table.unpack({...}, 1, n))
end

--- In a process that was started: calls the function. Its error is left in the folder, with the
--- time that tells which was first.
---@param folder string
function M.run(folder)
   local ok, why = xpcall(function() return call(read(folder)) end, debug.traceback)
   if ok then return end
   local file <close> = io.open(("%s/error.%s"):format(folder, os.getenv "RANK"), "w")
   if file then file:write(("%.9f\n"):format(torch.io.clock()), tostring(why)) end
   io.stderr:write(tostring(why), "\n")
   os.exit(1, true)
end

return M
