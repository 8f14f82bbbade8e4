-- instructions.lua FILE.ptx... - counts how many instructions kernels need for each element, in nvcc's PTX. It finds
-- the main loop, which streams over memory, and divides the number of its instructions by the number of elements in one
-- iteration. It prints a table with the 64-bit divisions and the widest load and store. A memory-bound kernel must not
-- divide in this loop, must load at least 16 bytes at once, and may need at most 60 % of the instructions that an H100
-- can issue while it moves the element's bytes; otherwise the program fails. An H100 issues 4 warp instructions per
-- cycle on each of 132 multiprocessors at 1.755 GHz, and moves 3.35 TB/s (data sheet). `make instructions` runs this
-- program.

-- the number of instructions that an H100 can issue while it moves one byte
local slots <const> = 132 * 4 * 32 * 1.755e9 / 3.35e12
local share <const> = 0.6

-- The memory-bound kernels that are checked. Each has a pattern for the demangled name, and the number of arrays that
-- are read or written.
local bounds <const> = {
   {"rows_kernel<add_f32", 3}, {"rows_kernel<mul_f32", 3}, {"rows_kernel<relu_f32", 2}, {"rows_kernel<addcmul_f32", 4},
   {"finish_kernel<[48], [01], b?f[^,]*, ", 2}, {"back_kernel<[48], [01], b?f", 3}, {"bias_rows_kernel<[48]", 2},
   {"bias_planes_kernel<[48]", 2}, {"scale_kernel<b?f", 2}, {"reduce_kernel<sum_square_f32, float", 1},
}

local widths <const> = {b8 = 1, u8 = 1, s8 = 1, b16 = 2, u16 = 2, s16 = 2, b32 = 4, u32 = 4, s32 = 4, f32 = 4,
   b64 = 8, u64 = 8, s64 = 8, f64 = 8}

-- Returns the number of bytes that an instruction loads from or stores to global memory, or nil for other instructions.
local function access(line)
   local word = line:match "^%s*@%S+%s+(%S+)" or line:match "^%s*(%S+)"
   local kind, rest = word:match "^([ls][dt])%.([%w.]+)"
   if not kind or rest:find "param" or rest:find "shared" or rest:find "const" or
      rest:find "local" then
      return nil
   end
   local times, kind_of = rest:match "v(%d)%.(%w+)$"
   return (tonumber(times) or 1) * (widths[kind_of or rest:match "(%w+)$"] or 0), kind
end

-- Returns the kernels in a PTX file as {name, lines}.
local function kernels_of(path)
   local list, current = {}, nil
   for line in io.lines(path) do
      local name = line:match "%.entry ([%w_$]+)"
      if name then current = {name = name, lines = {}} end
      if current and (line:find ";%s*$" or line:find "^%$[%w_]+:") then table.insert(current.lines, line) end
      if current and line:find "^}" then
         list[#list + 1] = current
         current = nil
      end
   end
   return list
end

-- Returns the loops of a kernel as {first line, last line}. The last line of a loop branches back to a label.
local function loops_of(lines)
   local labels, list = {}, {}
   for i, line in ipairs(lines) do
      local label = line:match "^(%$[%w_]+):"
      if label then labels[label] = i end
      local target = line:match "bra[.%w]*%s+(%$[%w_]+);"
      if target and labels[target] then list[#list + 1] = {labels[target], i} end
   end
   return list
end

-- Returns the set of lines within a range that belong to inner loops without memory accesses. Such loops compute
-- offsets for loops in several dimensions; long one-dimensional loops skip them, so their instructions are not counted.
local function of_offsets(lines, loops, first, last)
   local inside = {}
   for _, loop in ipairs(loops) do
      local within = loop[1] >= first and loop[2] <= last and loop[2] - loop[1] < last - first
      for i = loop[1], within and loop[2] or loop[1] do within = within and not access(lines[i]) end
      for i = loop[1], within and loop[2] or loop[1] - 1 do inside[i] = true end
   end
   return inside
end

local function count(lines, loops, first, last)
   local c = {instructions = 0, divisions = 0, load = 0, store = 0}
   local left_out = of_offsets(lines, loops, first, last)
   for i = first, last do
      local line = lines[i]
      if not line:find "^%$" and not left_out[i] then c.instructions = c.instructions + 1 end
      if line:find "div%.[su]64" or line:find "rem%.[su]64" then c.divisions = c.divisions + 1 end
      local bytes, kind = access(line)
      if kind == "ld" then c.load = math.max(c.load, bytes) end
      if kind == "st" then c.store = math.max(c.store, bytes) end
   end
   return c
end

-- Returns the counts for the main loop, which has the widest loads. If several loops have them, it is the shortest of
-- these.
local function streaming(lines)
   local best
   local loops = loops_of(lines)
   for _, loop in ipairs(loops) do
      local c = count(lines, loops, loop[1], loop[2])
      local wider = best and (c.load - best.load) * 32 + c.store - best.store or 1
      if wider > 0 or (wider == 0 and c.load > 0 and c.instructions < best.instructions) then best = c end
   end
   return best or count(lines, loops, 1, #lines)
end

local function demangle(kernels)
   local names = os.tmpname()
   local file = assert(io.open(names, "w"))
   for _, k in ipairs(kernels) do file:write(k.name, "\n") end
   file:close()
   local pipe <close> = assert(io.popen("c++filt <" .. names))
   for _, k in ipairs(kernels) do
      local line = pipe:read "l" or k.name
      k.name = line:gsub("^void ", ""):gsub("%(anonymous namespace%)::", ""):gsub("_GLOBAL__N__[%w_]*::", "")
         :gsub("_INTERNAL_[%w_]*::", ""):gsub("%(.*$", "")
   end
   os.remove(names)
end

local element <const> = {float = 4, f16 = 2, bf16 = 2, double = 8}

local all = {}
for _, path in ipairs(arg) do
   for _, k in ipairs(kernels_of(path)) do all[#all + 1] = k end
end
assert(#all > 0, "there are no kernels: make instructions")
demangle(all)
table.sort(all, function(a, b) return a.name < b.name end)

print(("%9s %9s %5s %5s %5s  %s"):format("a round", "element", "div64", "load", "store", "kernel"))
local failed, bounded = 0, 0
for _, k in ipairs(all) do
   local c = streaming(k.lines)
   local bytes = element[k.name:match "(bf16)" or k.name:match "[< ](f16)" or k.name:match "[< ](double)" or "float"]
   local per_round = tonumber(k.name:match "_kernel<(%d+),") or math.max(1, math.max(c.load, c.store) // bytes)
   local each, mark = c.instructions / per_round, ""
   for _, bound in ipairs(bounds) do
      if k.name:find(bound[1]) then
         bounded = bounded + 1
         local most = bound[2] * bytes * slots * share
         if each > most or c.divisions > 0 or c.load < 16 or (c.store > 0 and c.store < 8) then
            failed = failed + 1
            mark = ("  < at most %.0f, no division, 16 bytes"):format(most)
         end
         break
      end
   end
   print(("%9d %9.1f %5d %5d %5d  %s%s"):format(c.instructions, each, c.divisions, c.load, c.store, k.name:sub(1, 90),
      mark))
end
print(("%d kernels, %d with a bound, %d beyond it"):format(#all, bounded, failed))
os.exit(failed == 0 and bounded > 0)
