-- Notes how far the index is filled. Returns 1; 0 where another program has the duty to keep it, or the index was lost since
-- this filling began.
-- ARGV: owner, the name of this filling, whether it begins (0, 1), jobs found, jobs to find, whether all were found (0, 1)
local index = KEYS[1]
if redis.call('HGET', index, 'owner') ~= ARGV[1] then return 0 end
if ARGV[3] == '1' then
  redis.call('HSET', index, 'filler', ARGV[2])
elseif redis.call('HGET', index, 'filler') ~= ARGV[2] then
  return 0
end
redis.call('HSET', index, 'found', ARGV[4], 'total', ARGV[5])
if ARGV[6] == '1' and not redis.call('HGET', index, 'filling') then
  redis.call('HSET', index, 'filling', ARGV[2])
end
return 1
