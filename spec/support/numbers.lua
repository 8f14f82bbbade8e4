--- Returns a new generator of random numbers. The numbers depend only on the seed, so the seed determines a generated
--- program.
--@param seed integer
--@return fun(n: integer): integer  from 1 to n
return function(seed)
   local state = (seed * 2654435761 + 12345) & 0xffffffff
   return function(n)
      state = (state * 1664525 + 1013904223) & 0xffffffff
      return (state >> 12) % n + 1
   end
end
