-- registers.lua - prints the registers, stack and shared memory of each GPU kernel, from the output of the assembler
-- (ptxas -v). Fails if a kernel spills registers to memory. `make registers` runs this program.

local most_rows <const> = 25

-- Returns the kernels in one output file: {file, name, registers, stack, spilled, shared}.
local function kernels_of(path)
   local list, kernel = {}, nil
   local file <close> = assert(io.open(path))
   for line in file:lines() do
      local name = line:match "Compiling entry function '([^']+)'"
      if name then
         kernel = {file = path:match "kernels/cuda/(.*)%.o%.txt$" or path, name = name, shared = 0}
         list[#list + 1] = kernel
      end
      local stack, stores, loads =
         line:match "(%d+) bytes stack frame, (%d+) bytes spill stores, (%d+) bytes spill loads"
      -- the following lines of ptxas's output describe functions that the kernel calls
      if stack and kernel and not kernel.stack then
         kernel.stack, kernel.spilled = tonumber(stack), tonumber(stores) + tonumber(loads)
      end
      local registers = line:match "Used (%d+) registers"
      if registers and kernel then
         kernel.registers = tonumber(registers)
         kernel.shared = tonumber(line:match "(%d+) bytes smem" or 0)
      end
   end
   return list
end

-- Replaces the kernels' symbols by readable names, if c++filt is installed.
local function demangle(kernels)
   local names = os.tmpname()
   local file = assert(io.open(names, "w"))
   for _, k in ipairs(kernels) do file:write(k.name, "\n") end
   file:close()
   local pipe <close> = assert(io.popen("c++filt <" .. names .. " 2>/dev/null"))
   for _, k in ipairs(kernels) do
      local line = pipe:read "l" or k.name
      k.name = line:gsub("^void ", ""):gsub("%(anonymous namespace%)::", ""):gsub("%(.*$", "")
   end
   os.remove(names)
end

local function row(k)
   return ("%9d %6d %7d %7d  %-28s %s"):format(k.registers, k.stack, k.spilled, k.shared, k.file, k.name)
end

local kernels, spilled, stacked = {}, 0, 0
for _, path in ipairs(arg) do
   for _, k in ipairs(kernels_of(path)) do
      assert(k.registers and k.stack, path .. ": nothing is said of " .. k.name)
      kernels[#kernels + 1] = k
      if k.spilled > 0 then spilled = spilled + 1 end
      if k.stack > 0 then stacked = stacked + 1 end
   end
end
assert(#kernels > 0, "nothing is known of any kernel: make CUDA's plugin first")
demangle(kernels)

-- Sorts the kernels by cost, the highest first: by spills, then by stack, then by registers.
table.sort(kernels, function(a, b)
   if a.spilled ~= b.spilled then return a.spilled > b.spilled end
   if a.stack ~= b.stack then return a.stack > b.stack end
   if a.registers ~= b.registers then return a.registers > b.registers end
   return a.name < b.name
end)
print "registers  stack spilled  shared  file                         kernel"
for i, k in ipairs(kernels) do
   if i <= most_rows or k.spilled > 0 then print(row(k)) end
end
print(("%d kernels, %d with arrays on the stack, %d with spills"):format(#kernels, stacked, spilled))
os.exit(spilled == 0)
